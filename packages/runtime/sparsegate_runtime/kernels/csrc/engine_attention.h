/* Attention, by registers (`Part`, WIDTH floats); its products are those of engine_product.h. A part of
 * engine_variant.h. */
#define MASKED_OUT (-INFINITY)

/* e to the power x, at least about 1e-38, for x of at most zero; a NaN stays one. */
INLINE Part NAME(attention_exp)(Part x)
{
    const Part power = LARGER_PART(NAME(every)(-126), x * 1.44269504f), shifted = power + SHIFT, rest = power - (shifted - SHIFT);
    Part y = 0.0013264727f * rest + 0.0096715130f; /* fitted to 2^rest for rest in -0.5 .. 0.5 */
    y = y * rest + 0.0555073358f;
    y = y * rest + 0.2402224243f;
    y = y * rest + 0.6931470037f;
    y = y * rest + 1;
    return y * NAME(power_of_two)((PartWord)shifted);
}

/* One tile of queries of one head. All pointers are those of the head; q and out those of the first query. */
typedef struct {
    const Attention *of;
    const float *q, *k, *v;
    float *out;
    const void *mask;      /* of the head, or NULL */
    int64_t first, queries; /* the first query of the tile, and their number */
    int64_t keys;           /* that any of its queries sees */
    float *packed, *scores, *sums; /* [features], [ATTENTION_KEYS], [value_features], of a tile each */
} Head;

/* The queries of the tile times scale; lanes beyond the last query are zero. */
INLINE void NAME(pack_queries)(const int parts, const Head *head)
{
    const Attention *attention = head->of;
    for (int64_t f = 0; f < attention->features; f++) {
        float *to = head->packed + f * parts * WIDTH;
        const float *from = head->q + f * attention->q.stride[2];
        UNROLL for (int t = 0; t < parts; t++)
        {
            const int64_t left = head->queries - t * WIDTH;
            Part some = NAME(every)(0);
            if (left >= WIDTH)
                some = NAME(load)(from + t * WIDTH);
            else if (left > 0)
                memcpy(&some, from + t * WIDTH, (size_t)left * sizeof(float));
            ((Part *)(void *)to)[t] = attention->scale * some;
        }
    }
}

/* Scores of keys first .. first + count - 1, and their largest by query. */
INLINE void NAME(score)(const int parts, const Head *head, int64_t first, int64_t count, Part *most)
{
    const int64_t step = parts * WIDTH;
    for (int64_t j = 0; j < count; j += ROWS) {
        const float *row[ROWS];
        Part sum[ROWS][MOST_PARTS];
        NAME(rows_at)(head->k + first + j, 1, count - j, row);
        NAME(products)(parts, row, head->of->k.stride[2], head->packed, step, head->of->features, sum);
        UNROLL for (int r = 0; r < ROWS; r++)
        {
            UNROLL for (int t = 0; t < parts; t++) most[t] = LARGER_PART(most[t], sum[r][t]);
        }
        Part *to = (Part *)(void *)(head->scores + j * step);
        UNROLL for (int r = 0; r < ROWS; r++) if (j + r < count)
        {
            UNROLL for (int t = 0; t < parts; t++) to[r * parts + t] = sum[r][t];
        }
    }
}

/* The mask of WIDTH queries and one key, as a summand. */
INLINE Part NAME(mask_at)(const Head *head, int64_t t, int64_t key)
{
    const Attention *attention = head->of;
    const int64_t query_step = attention->mask.stride[2], key_step = attention->mask.stride[3];
    const int64_t left = head->queries - t * WIDTH, count = left < WIDTH ? left : WIDTH;
    const int64_t base = (head->first + t * WIDTH) * query_step + key * key_step;
    float lane[WIDTH] = {0};
    if (attention->mask_kind == MASK_BYTES) {
        const uint8_t *from = (const uint8_t *)head->mask + base;
        if (query_step == 0)
            return NAME(every)(*from ? 0 : MASKED_OUT);
        for (int64_t i = 0; i < count; i++)
            lane[i] = from[i * query_step] ? 0 : MASKED_OUT;
        return NAME(load)(lane);
    }
    const float *from = (const float *)head->mask + base;
    if (query_step == 0)
        return NAME(every)(*from);
    for (int64_t i = 0; i < count; i++)
        lane[i] = from[i * query_step];
    return NAME(load)(lane);
}

/* Adds the mask to the scores of some keys, excludes later keys if causal, and finds the largest again. */
INLINE void NAME(hide)(const int parts, const Head *head, int64_t first, int64_t count, Part *most)
{
    const Attention *attention = head->of;
    static const int32_t numbers[LANES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const PartBits lanes = *(const PartBits *)(const void *)numbers;
    const int64_t diagonal = head->first + attention->keys - attention->queries; /* the last key of the first query */
    UNROLL for (int t = 0; t < parts; t++) most[t] = NAME(every)(MASKED_OUT);
    for (int64_t j = 0; j < count; j++)
        UNROLL for (int t = 0; t < parts; t++)
        {
            Part *at = (Part *)(void *)(head->scores + (j * parts + t) * WIDTH), score = *at;
            if (head->mask && head->queries > t * WIDTH)
                score += NAME(mask_at)(head, t, first + j);
            if (attention->causal) {
                const int64_t behind = first + j - diagonal - t * WIDTH; /* lanes before this see no such key */
                const PartBits seen = lanes >= (PartBits){0} + (int32_t)(behind > WIDTH ? WIDTH : behind < 0 ? 0 : behind);
                score = (Part)((seen & (PartBits)score) | (~seen & (PartBits)NAME(every)(MASKED_OUT)));
            }
            *at = score;
            most[t] = LARGER_PART(most[t], score);
        }
}

/* Scores become their powers of e; `sum` adds them up by query. */
INLINE void NAME(attention_powers)(const int parts, const Head *head, int64_t count, const Part *most, Part *sum)
{
    for (int64_t j = 0; j < count; j++) {
        Part *at = (Part *)(void *)(head->scores + j * parts * WIDTH);
        UNROLL for (int t = 0; t < parts; t++)
        {
            at[t] = NAME(attention_exp)(at[t] - most[t]);
            sum[t] += at[t];
        }
    }
}

/* Sums of values: those of earlier keys times `fade`, and the values of these keys times their powers. */
INLINE void NAME(weigh)(const int parts, const Head *head, int64_t first, int64_t count, const Part *fade)
{
    const int64_t features = head->of->value_features, step = head->of->v.stride[2];
    for (int64_t f = 0; f < features; f += ROWS) {
        const float *row[ROWS];
        Part sum[ROWS][MOST_PARTS];
        NAME(rows_at)(head->v + first + f * step, step, features - f, row);
        NAME(products)(parts, row, 1, head->scores, parts * WIDTH, count, sum);
        Part *to = (Part *)(void *)(head->sums + f * parts * WIDTH);
        UNROLL for (int r = 0; r < ROWS; r++) if (f + r < features)
        {
            UNROLL for (int t = 0; t < parts; t++) to[r * parts + t] =
                first ? fade[t] * to[r * parts + t] + sum[r][t] : sum[r][t];
        }
    }
}

/* Writes the sums divided by the powers' sums; zeros for queries that saw no key. */
INLINE void NAME(attention_out)(const int parts, const Head *head, const Part *most, const Part *sum)
{
    Part inverse[MOST_PARTS];
    PartBits seen[MOST_PARTS];
    UNROLL for (int t = 0; t < parts; t++)
    {
        seen[t] = most[t] != NAME(every)(MASKED_OUT);
        inverse[t] = 1 / sum[t];
    }
    for (int64_t f = 0; f < head->of->value_features; f++) {
        float *to = head->out + f * head->of->out.stride[2];
        const Part *from = (const Part *)(const void *)(head->sums + f * parts * WIDTH);
        UNROLL for (int t = 0; t < parts; t++)
        {
            const Part done = (Part)((PartBits)(from[t] * inverse[t]) & seen[t]);
            const int64_t left = head->queries - t * WIDTH;
            if (left >= WIDTH)
                *(Part *)(void *)(to + t * WIDTH) = done;
            else if (left > 0)
                STORE_FIRST(to + t * WIDTH, done, left);
        }
    }
}

INLINE void NAME(attend)(const int parts, const Head *head)
{
    const Attention *attention = head->of;
    const int64_t blocks = (head->keys + ATTENTION_KEYS - 1) / ATTENTION_KEYS;
    const int64_t block = blocks ? (head->keys + blocks - 1) / blocks : 0, diagonal = head->first + attention->keys - attention->queries;
    Part most[MOST_PARTS], sum[MOST_PARTS], fade[MOST_PARTS];
    UNROLL for (int t = 0; t < parts; t++)
    {
        most[t] = NAME(every)(MASKED_OUT);
        sum[t] = NAME(every)(0);
    }
    NAME(pack_queries)(parts, head);
    for (int64_t first = 0; first < head->keys; first += block) {
        const int64_t count = head->keys - first < block ? head->keys - first : block;
        Part here[MOST_PARTS], base[MOST_PARTS];
        UNROLL for (int t = 0; t < parts; t++) here[t] = NAME(every)(MASKED_OUT);
        NAME(score)(parts, head, first, count, here);
        if (head->mask || (attention->causal && first + count - 1 > diagonal))
            NAME(hide)(parts, head, first, count, here);
        UNROLL for (int t = 0; t < parts; t++)
        {
            const Part larger = LARGER_PART(most[t], here[t]);
            const PartBits any = larger != NAME(every)(MASKED_OUT);
            base[t] = (Part)((PartBits)larger & any); /* the difference of infinities would be NaN */
            fade[t] = NAME(attention_exp)(most[t] - base[t]);
            sum[t] *= fade[t];
            most[t] = larger;
        }
        NAME(attention_powers)(parts, head, count, base, sum);
        NAME(weigh)(parts, head, first, count, fade);
    }
    if (!head->keys)
        memset(head->sums, 0, (size_t)(attention->value_features * parts * WIDTH) * sizeof(float));
    NAME(attention_out)(parts, head, most, sum);
}

TARGET static void NAME(attend_some)(int64_t tile, const Head *head)
{
    switch (tile) {
    case 1: NAME(attend)(PARTS, head); break;
    case 2: NAME(attend)(PARTS * (WIDE < 2 ? WIDE : 2), head); break;
    case 3: NAME(attend)(PARTS * (WIDE < 3 ? WIDE : 3), head); break;
    default: NAME(attend)(MOST_PARTS, head);
    }
}

KERNEL_OF(attention)
{
    const Attention *attention = of;
    const int64_t *sq = attention->q.stride, *sk = attention->k.stride, *sv = attention->v.stride;
    const int64_t *so = attention->out.stride, *sm = attention->mask.stride;
    const int64_t vectors = (attention->queries + LANES - 1) / LANES, tiles = (vectors + WIDE - 1) / WIDE;
    const int64_t jobs = attention->images * attention->heads * tiles, shared = attention->heads / attention->kv_heads;
    const int64_t last = jobs * (context->part + 1) / context->num_parts;
    float *scratch = context->scratch + (-(uintptr_t)context->scratch / sizeof(float) & (LANES - 1)); /* a whole line */
    for (int64_t job = jobs * context->part / context->num_parts; job < last; job++) {
        const int64_t h = job / tiles % attention->heads, n = job / tiles / attention->heads;
        const int64_t begin = job % tiles * vectors / tiles, end = (job % tiles + 1) * vectors / tiles, tile = end - begin;
        const int64_t first = begin * LANES, kv = h / shared, left = attention->queries - first;
        const int64_t queries = left < tile * LANES ? left : tile * LANES;
        const int64_t seen = first + queries + attention->keys - attention->queries;
        const int64_t keys = !attention->causal || seen > attention->keys ? attention->keys : seen < 0 ? 0 : seen;
        const float *q = sg_at(context, attention->q.buffer, attention->q.offset + n * sq[0] + h * sq[1] + first);
        const float *k = sg_at(context, attention->k.buffer, attention->k.offset + n * sk[0] + kv * sk[1]);
        const float *v = sg_at(context, attention->v.buffer, attention->v.offset + n * sv[0] + kv * sv[1]);
        float *out = sg_at(context, attention->out.buffer, attention->out.offset + n * so[0] + h * so[1] + first);
        const int64_t mask = attention->mask.offset + n * sm[0] + h * sm[1];
        float *scores = scratch + attention->features * tile * LANES, *sums = scores + ATTENTION_KEYS * tile * LANES;
        const Head head = {attention, q, k, v, out, 0, first, queries, keys, scratch, scores, sums};
        Head masked = head;
        if (attention->mask_kind == MASK_ADDED)
            masked.mask = sg_at(context, attention->mask.buffer, mask);
        else if (attention->mask_kind == MASK_BYTES)
            masked.mask = (const uint8_t *)sg_at(context, attention->mask.buffer, 0) + mask;
        NAME(attend_some)(tile, &masked);
    }
    return 0;
}
