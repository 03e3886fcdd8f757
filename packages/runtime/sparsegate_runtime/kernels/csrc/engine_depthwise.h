/* Depthwise convolutions of stride two, which read their input where it lies. A part of engine_variant.h. */

#define MOST_TAPS 5
#define MOST_LINES 4 /* of a tile */
#define ACROSS 2     /* registers of a line of a tile */

#ifndef IN_REGISTER
#define IN_REGISTER(value) (void)0 /* or keeps a compiler from loading it again for every product */
#endif

/* Where some lines of one channel are, and what happens to their sums. */
typedef struct {
    const float *in, *added;
    float *out;
    int64_t in_line, width, line; /* `line`: the pixels of a line of out and the border after them */
    const Instruction *function;
    Part least, most;
} NAME(Lines);

/* Every second float from `from` on; `odd` of them that follow these. Both read the same 2 * WIDTH floats. */
INLINE Part NAME(second)(const float *from, const int odd)
{
#if WIDTH == LANES
    const Part low = NAME(load)(from), high = NAME(load)(from + WIDTH);
    return odd ? __builtin_shufflevector(low, high, ODD) : __builtin_shufflevector(low, high, EVEN);
#else
    Part found;
    UNROLL for (int i = 0; i < WIDTH; i++) found[i] = from[2 * i + odd];
    return found;
#endif
}

/* The sums of a tile. What is read once serves all of its lines that reach it. */
INLINE void NAME(depthwise_sums)(const int taps, const int lines, const int across, const Part *weight, Part bias,
                                 const float *in, int64_t in_line, Part sum[MOST_LINES][ACROSS])
{
    UNROLL for (int r = 0; r < lines; r++)
    {
        UNROLL for (int x = 0; x < across; x++) sum[r][x] = bias;
    }
    UNROLL for (int i = 0; i < 2 * (lines - 1) + taps; i++)
    {
        UNROLL for (int dx = 0; dx < taps; dx++)
        {
            UNROLL for (int x = 0; x < across; x++)
            {
                Part value = NAME(second)(in + i * in_line + 2 * x * WIDTH + (dx & ~1), dx & 1);
                IN_REGISTER(value);
                UNROLL for (int r = 0; r < lines; r++) if (i >= 2 * r && i - 2 * r < taps)
                    sum[r][x] += weight[(i - 2 * r) * taps + dx] * value;
            }
        }
    }
}

/* Adds another tensor to a tile. */
INLINE void NAME(depthwise_add)(const int lines, const int across, const float *added, int64_t line,
                                Part sum[MOST_LINES][ACROSS])
{
    UNROLL for (int r = 0; r < lines; r++)
    {
        UNROLL for (int x = 0; x < across; x++) sum[r][x] += NAME(load)(added + r * line + x * WIDTH);
    }
}

/* Applies a function to a tile, whose registers go through memory. */
INLINE void NAME(depthwise_apply)(const Instruction *code, const int lines, const int across, Part sum[MOST_LINES][ACROSS])
{
    _Alignas(64) float room[MOST_LINES * ACROSS * WIDTH];
    const NAME(Operand) sums = {room, WIDTH};
    UNROLL for (int i = 0; i < lines * across; i++) NAME(save)(room + i * WIDTH, sum[i / across][i % across]);
    NAME(instruction)(code, sums, sums, room, lines * across);
    UNROLL for (int i = 0; i < lines * across; i++) sum[i / across][i % across] = NAME(load)(room + i * WIDTH);
}

/* Writes a register of sums; lanes beyond the last pixel become zero, as far as the line goes. */
INLINE void NAME(depthwise_write)(const NAME(Lines) *my, Part sum, float *to, int64_t inside, int64_t room)
{
    sum = SMALLER_PART(my->most, LARGER_PART(my->least, sum));
    if (inside < WIDTH)
        sum = NAME(keep_first)(sum, inside, NAME(every)(0));
    if (room >= WIDTH) {
        NAME(save)(to, sum);
    } else {
        const Part last = sum;
        STORE_FIRST(to, last, room);
    }
}

/* `lines` lines of `across` registers from float `at` of the lines on. */
INLINE void NAME(depthwise_tile)(const int taps, const int lines, const int across, const Part *weight, Part bias,
                                 const NAME(Lines) *my, int64_t at)
{
    Part sum[MOST_LINES][ACROSS];
    NAME(depthwise_sums)(taps, lines, across, weight, bias, my->in + 2 * at, my->in_line, sum);
    if (my->added)
        NAME(depthwise_add)(lines, across, my->added + at, my->line, sum);
    if (my->function)
        NAME(depthwise_apply)(my->function, lines, across, sum);
    UNROLL for (int r = 0; r < lines; r++)
    {
        UNROLL for (int x = 0; x < across; x++)
        {
            const int64_t here = at + x * WIDTH;
            NAME(depthwise_write)(my, sum[r][x], my->out + r * my->line + here, my->width - here, my->line - here);
        }
    }
}

INLINE void NAME(depthwise_lines)(const int taps, const int lines, const Part *weight, Part bias, const NAME(Lines) *my)
{
    int64_t at = 0;
    for (; my->width - at > (ACROSS - 1) * WIDTH; at += ACROSS * WIDTH)
        NAME(depthwise_tile)(taps, lines, ACROSS, weight, bias, my, at);
    for (; at < my->width; at += WIDTH)
        NAME(depthwise_tile)(taps, lines, 1, weight, bias, my, at);
    for (int r = 0; at < my->line && r < lines; r++)
        memset(my->out + r * my->line + at, 0, (size_t)(my->line - at) * sizeof(float));
}

/* The functions that follow, for `count` floats of a channel from position `at` on. */
TARGET __attribute__((noinline)) static void NAME(depthwise_then)(const Pointwise *then, const Context *context, int64_t c,
                                                                  float *out, int64_t at, int64_t count)
{
    NAME(pointwise_row)(then, context, out, c, at, count);
}

/* Lines first to last of one channel, counted through all images with the border between them. */
INLINE void NAME(depthwise_channel)(const int taps, const Depthwise *of, const Context *context, int64_t c, int64_t first,
                                    int64_t last)
{
    const Finish *finish = &of->finish;
    const Pointwise *then = finish->then;
    const int alone = then && then->num_inputs == 1 && then->num_code == 1 && then->code[0].to == then->result;
    const int64_t lines = of->images > 1 ? of->out_image / of->out_line : of->height;
    const float *in = sg_at(context, of->in.buffer, of->in.offset) + c * of->in.stride;
    const float *added = finish->adds ? sg_at(context, finish->added.buffer, finish->added.offset) + c * finish->added.stride : 0;
    float *out = sg_at(context, of->out.buffer, of->out.offset) + c * of->out.stride;
    NAME(Lines) my = {in, 0, out, of->in_line, of->width, of->out_line, alone ? then->code : 0, NAME(every)(finish->least),
                      NAME(every)(finish->most > 0 ? finish->most : INFINITY)};
    Part weight[MOST_TAPS * MOST_TAPS];
    for (int k = 0; k < taps * taps; k++)
        weight[k] = NAME(every)(of->weight[c * taps * taps + k]);
    const Part bias = NAME(every)(of->bias[c]);
    for (int64_t l = first, here = 1; l < last; l += here) {
        const int64_t y = l % lines, at = l * of->out_line;
        my.out = out + at;
        if (y >= of->height) {
            memset(my.out, 0, (size_t)of->out_line * sizeof(float));
            here = 1;
            continue;
        }
        const int64_t left = of->height - y < last - l ? of->height - y : last - l;
        const int64_t tiles = (left + MOST_LINES - 1) / MOST_LINES;
        here = (left + tiles - 1) / tiles; /* nearly equal tiles */
        my.in = in + l / lines * of->in_image + 2 * y * of->in_line;
        my.added = added ? added + at : 0;
        switch (here) {
        case 4: NAME(depthwise_lines)(taps, 4, weight, bias, &my); break;
        case 3: NAME(depthwise_lines)(taps, 3, weight, bias, &my); break;
        case 2: NAME(depthwise_lines)(taps, 2, weight, bias, &my); break;
        default: NAME(depthwise_lines)(taps, 1, weight, bias, &my);
        }
        if (then && !alone) /* whole registers: what follows is computed later, or zeroed by a mask */
            NAME(depthwise_then)(then, context, c, my.out, at, (here * of->out_line + WIDTH - 1) / WIDTH * WIDTH);
    }
}

TARGET static void NAME(depthwise_3)(const Depthwise *of, const Context *context, int64_t c, int64_t first, int64_t last)
{
    NAME(depthwise_channel)(3, of, context, c, first, last);
}

TARGET static void NAME(depthwise_5)(const Depthwise *of, const Context *context, int64_t c, int64_t first, int64_t last)
{
    NAME(depthwise_channel)(5, of, context, c, first, last);
}

KERNEL_OF(depthwise)
{
    const Depthwise *my = of;
    const int64_t lines = my->images > 1 ? (my->images - 1) * (my->out_image / my->out_line) + my->height : my->height;
    int64_t first = (context->begin + my->out_line - 1) / my->out_line; /* the lines that begin in these positions */
    int64_t last = (context->end + my->out_line - 1) / my->out_line;
    last = last < lines ? last : lines;
    const int64_t until = my->channels * (context->part + 1) / context->num_parts;
    for (int64_t c = my->channels * context->part / context->num_parts; c < until; c++) {
        if (my->taps == 3)
            NAME(depthwise_3)(my, context, c, first, last);
        else
            NAME(depthwise_5)(my, context, c, first, last);
    }
    return 0;
}
