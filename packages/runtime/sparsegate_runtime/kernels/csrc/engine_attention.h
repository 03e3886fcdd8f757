/* Attention, and products of activations, by registers (`Part`, WIDTH floats). A part of engine_variant.h. */

#define ROWS 6                              /* rows of a product that are summed together */
#define WIDE (MAX_TILE >= 4 * ROWS ? 4 : 1) /* vectors of a row that are summed together */
#define PARTS (LANES / WIDTH)               /* registers of a vector */
#define MOST_PARTS (WIDE * PARTS)
#define MASKED_OUT (-INFINITY)

/* ---- the micro-kernel ---- */

/* sum[r][t] = sum over k of row[r][k * row_step] * in[k * in_step + WIDTH * t], for k in 0 .. inner - 1. */
INLINE void NAME(products)(const int parts, const float *const row[ROWS], int64_t row_step, const float *in,
                           int64_t in_step, int64_t inner, Part sum[][MOST_PARTS])
{
    const float *r0 = row[0], *r1 = row[1], *r2 = row[2], *r3 = row[3], *r4 = row[4], *r5 = row[5];
    UNROLL for (int r = 0; r < ROWS; r++)
    {
        UNROLL for (int t = 0; t < parts; t++) sum[r][t] = NAME(every)(0);
    }
    for (int64_t k = 0, at = 0; k < inner; k++, at += row_step, in += in_step) {
        const float value[ROWS] = {r0[at], r1[at], r2[at], r3[at], r4[at], r5[at]};
                UNROLL for (int r = 0; r < ROWS; r++)
        {
            UNROLL for (int t = 0; t < parts; t++) sum[r][t] += value[r] * NAME(load)(in + t * WIDTH);
        }
    }
}

/* Pointers to up to six rows; those beyond the last repeat it, and their sums are not used. */
INLINE void NAME(rows_at)(const float *first, int64_t distance, int64_t count, const float *row[ROWS])
{
    UNROLL for (int r = 0; r < ROWS; r++) row[r] = first + (r < count ? r : count - 1) * distance;
}

/* ---- products of activations ---- */

#define INNER 256 /* products that are summed before the next columns */
#define HEIGHT 24 /* rows of a job */

/* Columns of `parts` registers of some rows of one product. */
INLINE void NAME(multiply_tile)(const int parts, const MatrixMultiply *multiply, const float *a, const float *b,
                                int64_t rows, float *out)
{
    const int64_t row_step = multiply->a.stride[3], inner_step = multiply->a.stride[4];
    const int64_t b_step = multiply->b.stride[3], out_step = multiply->out.stride[3];
    for (int64_t k = 0; k == 0 || k < multiply->inner; k += INNER) {
        const int64_t inner = multiply->inner - k < INNER ? multiply->inner - k : INNER;
        for (int64_t m = 0; m < rows; m += ROWS) {
            const float *row[ROWS];
            Part sum[ROWS][MOST_PARTS];
            NAME(rows_at)(a + m * row_step + k * inner_step, row_step, rows - m, row);
            NAME(products)(parts, row, inner_step, b + k * b_step, b_step, inner, sum);
            UNROLL for (int r = 0; r < ROWS; r++) if (m + r < rows)
            {
                float *to = out + (m + r) * out_step;
                UNROLL for (int t = 0; t < parts; t++)
                {
                    const Part sums = multiply->scale * sum[r][t];
                    NAME(save)(to + t * WIDTH, k ? NAME(load)(to + t * WIDTH) + sums : sums);
                }
            }
        }
    }
}

/* Fewer columns than a vector has lanes, one row at a time. */
TARGET static void NAME(multiply_narrow)(const MatrixMultiply *multiply, const float *a, const float *b, int64_t rows,
                                         int64_t columns, float *out)
{
    for (int64_t m = 0; m < rows; m++) {
        float sum[LANES] = {0};
        for (int64_t k = 0; k < multiply->inner; k++) {
            const float value = a[m * multiply->a.stride[3] + k * multiply->a.stride[4]];
            for (int64_t n = 0; n < columns; n++)
                sum[n] += value * b[k * multiply->b.stride[3] + n];
        }
        for (int64_t n = 0; n < columns; n++)
            out[m * multiply->out.stride[3] + n] = multiply->scale * sum[n];
    }
}

/* Columns n .. of some rows; a tile that is narrower than a vector overlaps the columns before. */
TARGET static void NAME(multiply_columns)(const MatrixMultiply *multiply, const float *a, const float *b, int64_t rows,
                                          int64_t columns, float *out)
{
    switch (columns < LANES ? 0 : columns / LANES) {
    case 0: NAME(multiply_narrow)(multiply, a, b, rows, columns, out); return;
    case 1: NAME(multiply_tile)(PARTS, multiply, a, b, rows, out); break;
    case 2: NAME(multiply_tile)(PARTS * (WIDE < 2 ? WIDE : 2), multiply, a, b, rows, out); break;
    case 3: NAME(multiply_tile)(PARTS * (WIDE < 3 ? WIDE : 3), multiply, a, b, rows, out); break;
    default: NAME(multiply_tile)(MOST_PARTS, multiply, a, b, rows, out);
    }
    if (columns % LANES)
        NAME(multiply_tile)(PARTS, multiply, a, b + columns - LANES, rows, out + columns - LANES);
}

KERNEL_OF(matrix_multiply)
{
    const MatrixMultiply *multiply = of;
    const int64_t *sa = multiply->a.stride, *sb = multiply->b.stride, *so = multiply->out.stride;
    const float *a = sg_at(context, multiply->a.buffer, multiply->a.offset);
    const float *b = sg_at(context, multiply->b.buffer, multiply->b.offset);
    float *out = sg_at(context, multiply->out.buffer, multiply->out.offset);
    const int64_t width = WIDE * LANES, whole = multiply->columns / width;
    const int64_t across = whole ? whole : 1; /* the last tile takes the columns that are left, too */
    const int64_t down = (multiply->rows + HEIGHT - 1) / HEIGHT;
    const int64_t jobs = multiply->columns ? multiply->batch[0] * multiply->batch[1] * multiply->batch[2] * across * down : 0;
    const int64_t last = jobs * (context->part + 1) / context->num_parts;
    for (int64_t job = jobs * context->part / context->num_parts; job < last; job++) {
        const int64_t m = job % down * HEIGHT, tile = job / down % across, n = tile * width, i = job / down / across;
        const int64_t z = i % multiply->batch[2], y = i / multiply->batch[2] % multiply->batch[1];
        const int64_t x = i / multiply->batch[2] / multiply->batch[1];
        const float *from = a + x * sa[0] + y * sa[1] + z * sa[2] + m * sa[3], *in = b + x * sb[0] + y * sb[1] + z * sb[2] + n;
        float *to = out + x * so[0] + y * so[1] + z * so[2] + m * so[3] + n;
        const int64_t rows = multiply->rows - m < HEIGHT ? multiply->rows - m : HEIGHT;
        const int64_t columns = tile + 1 < across ? width : multiply->columns - n;
        int64_t done = 0;
        if (columns > width) {
            NAME(multiply_columns)(multiply, from, in, rows, width, to);
            /* what is left begins with whole vectors; fewer columns than a vector overlap those before */
            done = columns - width < LANES ? columns - LANES : width;
        }
        NAME(multiply_columns)(multiply, from, in + done, rows, columns - done, to + done);
    }
    return 0;
}

/* ---- attention ---- */

/* e to the power x, at least about 1e-38, for x of at most zero; a NaN stays one. */
INLINE Part NAME(attention_exp)(Part x)
{
    const float magic = 12582912; /* 1.5 * 2^23: adding it rounds to integers */
    const Part power = LARGER_PART(NAME(every)(-126), x * 1.44269504f), shifted = power + magic, rest = power - (shifted - magic);
    Part y = 0.0013264727f * rest + 0.0096715130f; /* fitted to 2^rest for rest in -0.5 .. 0.5 */
    y = y * rest + 0.0555073358f;
    y = y * rest + 0.2402224243f;
    y = y * rest + 0.6931470037f;
    y = y * rest + 1;
    return (Part)((PartBits)y + ((PartBits)shifted << 23));
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
