/* Attention of one new token to the keys of earlier ones, which a cache holds. A part of engine_variant.h. */

#define CACHED_PARTS 4 /* registers of scores that are summed together */

/* Scores of `count` keys from `keys` on; returns the largest. Lanes behind the last key get MASKED_OUT. */
INLINE float NAME(cached_scores)(const float *q, int64_t features, const float *keys, int64_t room, int64_t count, float *scores)
{
    Part most = NAME(every)(MASKED_OUT);
    for (int64_t j = 0; j < count; j += CACHED_PARTS * WIDTH) {
        Part sum[CACHED_PARTS];
        UNROLL for (int t = 0; t < CACHED_PARTS; t++) sum[t] = NAME(every)(0);
        for (int64_t f = 0; f < features; f++)
            UNROLL for (int t = 0; t < CACHED_PARTS; t++) sum[t] += q[f] * NAME(load)(keys + f * room + j + t * WIDTH);
        UNROLL for (int t = 0; t < CACHED_PARTS; t++)
        {
            const int64_t left = count - j - t * WIDTH;
            if (left < WIDTH)
                sum[t] = NAME(keep_first)(sum[t], left > 0 ? left : 0, NAME(every)(MASKED_OUT));
            most = LARGER_PART(most, sum[t]);
            NAME(save)(scores + j + t * WIDTH, sum[t]);
        }
    }
    float largest = MASKED_OUT;
    for (int i = 0; i < WIDTH; i++)
        largest = largest > most[i] ? largest : most[i];
    return largest;
}

/* sums = fade * sums + the values of `count` tokens times their powers. */
INLINE void NAME(cached_values)(const float *power, const float *values, int64_t features, int64_t count, float fade, float *sums)
{
    for (int64_t f = 0; f < features; f += CACHED_PARTS * WIDTH) {
        Part sum[CACHED_PARTS];
        UNROLL for (int t = 0; t < CACHED_PARTS; t++) sum[t] = fade * NAME(load)(sums + f + t * WIDTH);
        for (int64_t j = 0; j < count; j++)
            UNROLL for (int t = 0; t < CACHED_PARTS; t++) sum[t] += power[j] * NAME(load)(values + j * features + f + t * WIDTH);
        UNROLL for (int t = 0; t < CACHED_PARTS; t++) NAME(save)(sums + f + t * WIDTH, sum[t]);
    }
}

/* One query of a head: softmax(q k^T) v over all keys, ATTENTION_KEYS of them at a time. */
TARGET static void NAME(attend_to_cache)(const CachedAttention *of, const float *q, const float *keys, const float *values,
                                         int64_t room, int64_t count, float *sums, float *scores, float *out)
{
    float most = MASKED_OUT;
    Part total = NAME(every)(0);
    memset(sums, 0, (size_t)(of->value_features + CACHED_PARTS * WIDTH) * sizeof(float));
    for (int64_t first = 0; first < count; first += ATTENTION_KEYS) {
        const int64_t here = count - first < ATTENTION_KEYS ? count - first : ATTENTION_KEYS;
        const float largest = NAME(cached_scores)(q, of->features, keys + first, room, here, scores);
        const float now = largest > most ? largest : most;
        const Part fade = NAME(attention_exp)(NAME(every)(most - now));
        total *= fade;
        for (int64_t j = 0; j < here; j += WIDTH) {
            const Part power = NAME(attention_exp)(NAME(load)(scores + j) - now);
            const Part some = here - j < WIDTH ? NAME(keep_first)(power, here - j, NAME(every)(0)) : power;
            total += some;
            NAME(save)(scores + j, some);
        }
        NAME(cached_values)(scores, values + first * of->value_features, of->value_features, here, fade[0], sums);
        most = now;
    }
    const float share = 1 / NAME(sum_of)(total);
    for (int64_t f = 0; f < of->value_features; f++)
        out[f * of->out.stride[2]] = share * sums[f];
}

KERNEL_OF(cached_attention)
{
    const CachedAttention *attention = of;
    const int64_t *state = (const int64_t *)(const void *)context->buffers[attention->state];
    const int64_t past = state[0], room = state[1], features = attention->features, value_features = attention->value_features;
    const int64_t *sq = attention->q.stride, *sk = attention->k.stride, *sv = attention->v.stride, *so = attention->out.stride;
    const int64_t jobs = attention->images * attention->kv_heads, shared = attention->heads / attention->kv_heads;
    if (past < 0 || past >= room)
        return 1;
    float *scores = context->scratch, *q = scores + ATTENTION_KEYS + CACHED_PARTS * WIDTH, *sums = q + features;
    for (int64_t job = jobs * context->part / context->num_parts; job < jobs * (context->part + 1) / context->num_parts; job++) {
        const int64_t n = job / attention->kv_heads, h = job % attention->kv_heads, at = attention->layer * jobs + job;
        float *keys = context->buffers[attention->keys] + at * features * room;
        float *values = context->buffers[attention->values] + at * value_features * room;
        const float *k = sg_at(context, attention->k.buffer, attention->k.offset + n * sk[0] + h * sk[1]);
        const float *v = sg_at(context, attention->v.buffer, attention->v.offset + n * sv[0] + h * sv[1]);
        for (int64_t f = 0; f < features; f++)
            keys[f * room + past] = k[f * sk[2]];
        for (int64_t f = 0; f < value_features; f++)
            values[past * value_features + f] = v[f * sv[2]];
        for (int64_t g = h * shared; g < (h + 1) * shared; g++) {
            const float *from = sg_at(context, attention->q.buffer, attention->q.offset + n * sq[0] + g * sq[1]);
            for (int64_t f = 0; f < features; f++)
                q[f] = attention->scale * from[f * sq[2]];
            float *out = sg_at(context, attention->out.buffer, attention->out.offset + n * so[0] + g * so[1]);
            NAME(attend_to_cache)(attention, q, keys, values, room, past + 1, sums, scores, out);
        }
    }
    return 0;
}
