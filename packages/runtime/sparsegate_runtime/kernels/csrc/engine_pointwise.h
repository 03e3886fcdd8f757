/* Pointwise operations: runs their code on chunks of positions, one instruction after the other. */
#define CHUNK 512  /* floats of a register */
#define LONG_CHUNK 8192 /* floats at a time, if no register is needed */

/* An operand: at `at`, with `step` floats from one part to the next: WIDTH, or 0 if all are the same. */
typedef struct {
    const float *at;
    int64_t step;
} NAME(Operand);

#define UNARY(name, expression)                               \
    case name:                                                \
        for (int64_t i = 0; i < parts; i++) {                 \
            const Part u = NAME(load)(a.at + i * a.step);     \
            NAME(save)(to + i * WIDTH, expression);           \
        }                                                     \
        break;
#define BINARY(name, expression)                              \
    case name:                                                \
        for (int64_t i = 0; i < parts; i++) {                 \
            const Part u = NAME(load)(a.at + i * a.step);     \
            const Part v = NAME(load)(b.at + i * b.step);     \
            NAME(save)(to + i * WIDTH, expression);           \
        }                                                     \
        break;

/* Sine or cosine; one by one if an angle is very large */
INLINE void NAME(sines)(NAME(Operand) a, float *to, int64_t parts, uint32_t quarter)
{
    for (int64_t i = 0; i < parts; i++) {
        const float *from = a.at + i * a.step;
        float angle[WIDTH]; /* `to` may be `from` */
        memcpy(angle, from, sizeof angle);
        NAME(save)(to + i * WIDTH, NAME(sine_part)(NAME(load)(angle), quarter));
        for (int k = 0; k < WIDTH; k++) /* only these, so that no number changes its neighbours */
            if (fabsf(angle[k]) > FAR)
                to[i * WIDTH + k] = quarter ? cosf(angle[k]) : sinf(angle[k]);
    }
}

/* Powers: small integers and square roots by multiplication, others one by one */
TARGET static void NAME(powers)(NAME(Operand) a, float *to, int64_t parts, float exponent)
{
    const float size = fabsf(exponent);
    const int32_t twice = size <= 64 ? (int32_t)(2 * size) : -1;
    for (int64_t i = 0; i < parts; i++) {
        const float *from = a.at + i * a.step;
        if ((float)twice != 2 * size || (twice & 1 && twice != 1)) {
            for (int k = 0; k < WIDTH; k++)
                to[i * WIDTH + k] = powf(from[k], exponent);
            continue;
        }
        Part base = NAME(load)(from), product = NAME(every)(1);
        if (twice == 1)
            product = ROOT(base);
        for (int32_t left = twice >> 1; left; left >>= 1, base *= base)
            if (left & 1)
                product *= base;
        NAME(save)(to + i * WIDTH, exponent < 0 ? 1.0f / product : product);
    }
}

TARGET static void NAME(instruction)(const Instruction *code, NAME(Operand) a, NAME(Operand) b, float *to, int64_t parts)
{
    const Part zero = NAME(every)(0), x = NAME(every)(code->x), y = NAME(every)(code->y);
    switch (code->function) {
        UNARY(F_COPY, u)
        UNARY(F_RELU, LARGER_PART(zero, u))
        UNARY(F_RELU6, NAME(clamp_part)(0, 6, u))
        UNARY(F_LEAKY_RELU, PICK(ABOVE(u, zero), u, u * x))
        UNARY(F_ELU, NAME(elu_part)(u, code->x))
        UNARY(F_SIGMOID, NAME(sigmoid_part)(u))
        UNARY(F_TANH, NAME(tanh_part)(u))
        UNARY(F_SILU, NAME(silu_part)(u))
        UNARY(F_GELU, NAME(gelu_part)(u))
        UNARY(F_GELU_TANH, NAME(gelu_tanh_part)(u))
        UNARY(F_HARD_SIGMOID, NAME(clamp_part)(0, 6, u + 3.0f) * (1.0f / 6))
        UNARY(F_HARD_SWISH, u * (NAME(clamp_part)(0, 6, u + 3.0f) * (1.0f / 6)))
        UNARY(F_SOFTPLUS, NAME(softplus_part)(u))
        UNARY(F_MISH, NAME(mish_part)(u))
        UNARY(F_EXP, NAME(exp_part)(u))
        UNARY(F_LOG, NAME(log_part)(u))
        UNARY(F_ERF, NAME(erf_part)(u))
        UNARY(F_SQRT, ROOT(u))
        UNARY(F_RSQRT, 1.0f / ROOT(u))
        UNARY(F_RECIPROCAL, 1.0f / u)
        UNARY(F_ABS, NAME(abs_part)(u))
        UNARY(F_NEG, -u)
        UNARY(F_SQUARE, u * u)
        UNARY(F_FLOOR, NAME(floor_part)(u))
        UNARY(F_CEIL, NAME(ceil_part)(u))
        UNARY(F_ROUND, NAME(round_part)(u))
        UNARY(F_SIGN, NAME(sign_part)(u))
        UNARY(F_CLAMP, SMALLER_PART(y, LARGER_PART(x, u)))
        UNARY(F_AFFINE, x * u + y)
        BINARY(F_ADD, u + v)
        BINARY(F_SUB, u - v)
        BINARY(F_MUL, u * v)
        BINARY(F_DIV, u / v)
        BINARY(F_MAX, NAME(max_part)(u, v))
        BINARY(F_MIN, NAME(min_part)(u, v))
        BINARY(F_PRELU, PICK(ABOVE(u, zero), u, u * v))
        BINARY(F_KEEP, PICK(ABOVE(v, zero), u, zero))
    case F_SIN:
    case F_COS:
        NAME(sines)(a, to, parts, code->function == F_COS);
        break;
    case F_POW:
        NAME(powers)(a, to, parts, code->x);
        break;
    }
}

/* out = code(inputs) for `count` floats. More than CHUNK only for one instruction without gathered inputs, and whole
 * parts. Inputs of stride 1 are read in place, and the last instruction writes to `out`, if it can. */
TARGET static void NAME(code)(const Pointwise *of, const float *const *in, const int64_t *stride, float *out, int64_t count)
{
    _Alignas(64) float own[MOST_REGISTERS][CHUNK];
    _Alignas(64) float same[MOST_INPUTS][WIDTH]; /* apart from `own`, which instructions write to */
    NAME(Operand) operand[MOST_REGISTERS] = {0};
    const int64_t parts = (count + WIDTH - 1) / WIDTH;
    const int whole = count % WIDTH == 0;
    for (int64_t i = 0; i < of->num_inputs; i++) {
        const int is_same = stride[i] == 0 || (stride[i] == REPEATS && WIDTH == LANES);
        const float *at = stride[i] == 1 ? in[i] : is_same ? same[i] : own[i];
        operand[i] = (NAME(Operand)){at, is_same ? 0 : WIDTH};
        if (is_same)
            NAME(save)(same[i], stride[i] ? NAME(load)(in[i]) : NAME(every)(*in[i]));
        else if (stride[i] == REPEATS)
            for (int64_t p = 0; p < parts * WIDTH; p++)
                own[i][p] = in[i][p % LANES];
        else if (stride[i] != 1) {
            for (int64_t p = 0; p < count; p++)
                own[i][p] = in[i][p * stride[i]];
            for (int64_t p = count; p < parts * WIDTH; p++)
                own[i][p] = 0;
        }
    }
    for (int64_t k = 0; k < of->num_code; k++) {
        const Instruction *code = of->code + k;
        NAME(Operand) a = operand[code->a], b = operand[code->function >= F_ADD ? code->b : code->a];
        if (k < of->num_code - 1 || code->to != of->result) {
            NAME(instruction)(code, a, b, own[code->to], parts);
            operand[code->to] = (NAME(Operand)){own[code->to], WIDTH};
            continue;
        }
        const int64_t first = whole ? parts : parts - 1; /* whole registers; what is left goes through memory */
        float last[WIDTH];
        if (!whole) {
            const NAME(Operand) c = {a.at + first * a.step, a.step}, d = {b.at + first * b.step, b.step};
            NAME(instruction)(code, c, d, last, 1);
        }
        if (first)
            NAME(instruction)(code, a, b, out, first);
        if (!whole)
            memcpy(out + first * WIDTH, last, (size_t)(count - first * WIDTH) * sizeof(float));
        return;
    }
    const NAME(Operand) result = operand[of->result];
    if (result.step)
        memmove(out, result.at, (size_t)count * sizeof(float));
    else
        for (int64_t p = 0; p < count; p++)
            out[p] = result.at[p % WIDTH];
}

/* Zero where `inside` is */
INLINE void NAME(keep_inside)(float *out, const int32_t *inside, int64_t count)
{
    int64_t p = 0;
    for (; p + WIDTH <= count; p += WIDTH)
        NAME(save)(out + p, (Part)((PartBits)NAME(load)(out + p) & *(const PartBits *)(const void *)(inside + p)));
    for (; p < count; p++)
        out[p] = inside[p] ? out[p] : 0;
}

/* The code of a product's Finish on `count` floats at `row`, which are the sums of row r from position `begin` on:
 * register 0 is the sum, the other inputs are read at [r][position]. */
TARGET static inline void NAME(pointwise_row)(const Pointwise *of, const Context *context, float *row, int64_t r,
                                              int64_t begin, int64_t count)
{
    if (of->num_inputs == 1 && of->num_code == 1 && of->code[0].to == of->result && count % WIDTH == 0) {
        const NAME(Operand) sums = {row, WIDTH};
        NAME(instruction)(of->code, sums, sums, row, count / WIDTH);
        if (of->inside)
            NAME(keep_inside)(row, of->inside + begin, count);
        return;
    }
    const float *in[MOST_INPUTS] = {row};
    int64_t stride[MOST_INPUTS] = {1};
    for (int64_t i = 1; i < of->num_inputs; i++) {
        const View *view = of->in + i;
        stride[i] = view->stride[1];
        in[i] = sg_at(context, view->buffer,
                      view->offset + r * view->stride[0] + (stride[i] == REPEATS ? 0 : begin * stride[i]));
    }
    for (int64_t p = 0; p < count; p += CHUNK) {
        const int64_t here = count - p < CHUNK ? count - p : CHUNK;
        NAME(code)(of, in, stride, row + p, here);
        for (int64_t i = 0; i < of->num_inputs; i++)
            in[i] += stride[i] == REPEATS ? 0 : here * stride[i];
    }
    if (of->inside)
        NAME(keep_inside)(row, of->inside + begin, count);
}

/* The loops of an operation: rows by index of the outer dimensions, and positions. */
typedef struct {
    int64_t outer, shape[MOST_DIMS]; /* outer dimensions, then the positions */
    int64_t in[MOST_INPUTS][MOST_DIMS], out[MOST_DIMS];
    int64_t begin, count, rows;
} NAME(Loops);

/* Joins dimensions whose elements are neighbours, from the last on, if the step has all positions. */
TARGET static NAME(Loops) NAME(loops)(const Pointwise *of, const Context *context)
{
    NAME(Loops) loops = {.outer = of->dims - 1, .begin = context->begin, .count = context->end - context->begin};
    memcpy(loops.shape, of->shape, sizeof(loops.shape));
    memcpy(loops.out, of->out.stride, sizeof(loops.out));
    for (int64_t i = 0; i < of->num_inputs; i++)
        memcpy(loops.in[i], of->in[i].stride, sizeof(loops.in[i]));
    int64_t whole = !of->inside;
    for (int64_t i = 0; i < of->num_inputs; i++)
        whole &= loops.in[i][loops.outer] != REPEATS;
    whole &= loops.begin == 0 && loops.count == of->shape[loops.outer];
    while (whole && loops.outer > 0) {
        const int64_t d = loops.outer, size = loops.shape[d];
        const int64_t one = size == 1 && loops.out[d - 1] == 1;
        for (int64_t i = 0; i < of->num_inputs && !one; i++)
            whole &= loops.in[i][d - 1] == loops.in[i][d] * size;
        if (!one && (!whole || loops.out[d - 1] != size))
            break;
        for (int64_t i = 0; i < of->num_inputs && !one; i++)
            loops.in[i][d - 1] = loops.in[i][d];
        loops.out[d - 1] = 1;
        loops.count = loops.shape[d - 1] *= size;
        loops.outer--;
    }
    loops.rows = 1;
    for (int64_t d = 0; d < loops.outer; d++)
        loops.rows *= loops.shape[d];
    return loops;
}

KERNEL_OF(pointwise)
{
    const Pointwise *my = of;
    const NAME(Loops) loops = NAME(loops)(my, context);
    const int64_t last = loops.outer;
    int64_t stride[MOST_INPUTS], simple = my->num_code == 1 && my->code[0].to == my->result;
    for (int64_t i = 0; i < my->num_inputs; i++) {
        stride[i] = loops.in[i][last];
        simple &= stride[i] == 0 || stride[i] == 1 || (stride[i] == REPEATS && WIDTH == LANES);
    }
    /* every thread takes a range of units, each a chunk of a row */
    const int64_t chunk = simple ? LONG_CHUNK : CHUNK, chunks = (loops.count + chunk - 1) / chunk;
    const int64_t units = loops.rows * chunks;
    const int64_t until = units * (context->part + 1) / context->num_parts;
    for (int64_t unit = units * context->part / context->num_parts; unit < until;) {
        const int64_t row = unit / chunks, first = unit % chunks;
        const int64_t count_units = until - unit < chunks - first ? until - unit : chunks - first;
        const int64_t begin = loops.begin + first * chunk;
        int64_t left = count_units * chunk;
        if (left > loops.begin + loops.count - begin)
            left = loops.begin + loops.count - begin;
        const float *in[MOST_INPUTS];
        int64_t at[MOST_DIMS], rest = row;
        for (int64_t d = last - 1; d >= 0; rest /= loops.shape[d], d--)
            at[d] = d ? rest % loops.shape[d] : rest;
        for (int64_t i = 0; i < my->num_inputs; i++) {
            in[i] = sg_at(context, my->in[i].buffer, my->in[i].offset) + (stride[i] == REPEATS ? 0 : begin * stride[i]);
            for (int64_t d = 0; d < last; d++)
                in[i] += at[d] * loops.in[i][d];
        }
        float *out = sg_at(context, my->out.buffer, my->out.offset) + begin;
        for (int64_t d = 0; d < last; d++)
            out += at[d] * loops.out[d];
        const int32_t *inside = my->inside ? my->inside + begin : 0;
        while (left > 0) {
            int64_t here = left < chunk ? left : chunk;
            if (here > CHUNK && here % WIDTH)
                here -= here % CHUNK;
            NAME(code)(my, in, stride, out, here);
            if (inside) {
                NAME(keep_inside)(out, inside, here);
                inside += here;
            }
            for (int64_t i = 0; i < my->num_inputs; i++)
                in[i] += stride[i] == REPEATS ? 0 : here * stride[i];
            out += here;
            left -= here;
        }
        unit += count_units;
    }
    return 0;
}
