/* Depthwise convolutions: every channel has a square kernel of its own. A part of engine_variant.h.
 *
 * A tile is some lines of some registers. What is read once serves all lines of the tile that reach it.
 */

#define MOST_TAPS 7
#define MOST_LINES 4 /* of a tile */
#define MOST_ACROSS 4 /* registers of a line of a tile */

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

/* The sums of a tile of `lines` lines and `across` registers. Pixels are sixteen images wide (`wide`) or one float. */
INLINE void NAME(depthwise_sums)(const int taps, const int stride, const int wide, const int lines, const int across,
                                 const Part *weight, Part bias, const float *in, int64_t in_line,
                                 Part sum[MOST_LINES][MOST_ACROSS])
{
    const int chains = lines * across < 8 ? 2 : 1; /* two sums of a few, so that none waits for the one before */
    Part more[MOST_LINES][MOST_ACROSS];
    UNROLL for (int r = 0; r < lines; r++)
    {
        UNROLL for (int x = 0; x < across; x++) sum[r][x] = bias;
        UNROLL for (int x = 0; x < across; x++) more[r][x] = NAME(every)(0);
    }
    UNROLL for (int i = 0; i < stride * (lines - 1) + taps; i++)
    {
        const float *row = in + i * in_line;
        UNROLL for (int dx = 0; dx < taps; dx++)
        {
            UNROLL for (int x = 0; x < across; x++)
            {
                const int parts = LANES / WIDTH;
                const Part value =
                    wide          ? NAME(load)(row + (stride * (x / parts) + dx) * LANES + x % parts * WIDTH)
                    : stride == 1 ? NAME(load)(row + x * WIDTH + dx)
                                  : NAME(second)(row + 2 * x * WIDTH + (dx & ~1), dx & 1);
                UNROLL for (int r = 0; r < lines; r++) if (i - stride * r >= 0 && i - stride * r < taps)
                {
                    if (chains == 2 && dx % 2)
                        more[r][x] += weight[(i - stride * r) * taps + dx] * value;
                    else
                        sum[r][x] += weight[(i - stride * r) * taps + dx] * value;
                }
            }
        }
    }
    UNROLL for (int r = 0; chains == 2 && r < lines; r++)
    {
        UNROLL for (int x = 0; x < across; x++) sum[r][x] += more[r][x];
    }
}

/* Where lines of one channel are: what they read, what is added to them, and their results. */
typedef struct {
    const float *in, *added;
    float *out;
    int64_t width, line; /* floats of a line: its pixels, and the border after them too */
} NAME(DepthwiseLines);

/* Finishes a register of sums and writes it; lanes beyond the last pixel become zero, as far as the line goes. */
INLINE void NAME(depthwise_write)(const Finish *finish, Part sum, const float *added, float *to, int64_t inside, int64_t room)
{
    if (added)
        sum += NAME(load)(added);
    sum = LARGER_PART(NAME(every)(finish->least), sum);
    if (finish->most > 0)
        sum = SMALLER_PART(NAME(every)(finish->most), sum);
    if (inside < WIDTH)
        sum = NAME(keep_first)(sum, inside, NAME(every)(0));
    if (room >= WIDTH) {
        NAME(save)(to, sum);
    } else {
        const Part last = sum;
        STORE_FIRST(to, last, room);
    }
}

/* One tile: `lines` lines of `across` registers from float `at` of the lines on. */
INLINE void NAME(depthwise_tile)(const int taps, const int stride, const int wide, const int lines, const int across,
                                 const Depthwise *of, const Part *weight, Part bias, const NAME(DepthwiseLines) *my,
                                 int64_t at)
{
    Part sum[MOST_LINES][MOST_ACROSS];
    const float *in = my->in + (wide ? at / LANES * LANES * stride + at % LANES : at * stride);
    NAME(depthwise_sums)(taps, stride, wide, lines, across, weight, bias, in, of->in_line, sum);
    UNROLL for (int r = 0; r < lines; r++)
    {
        UNROLL for (int x = 0; x < across; x++)
        {
            const int64_t here = at + x * WIDTH, to = r * of->out_line + here;
            NAME(depthwise_write)
            (&of->finish, sum[r][x], my->added ? my->added + to : 0, my->out + to, my->width - here, my->line - here);
        }
    }
}

/* `lines` lines of one channel. */
INLINE void NAME(depthwise_lines)(const int taps, const int stride, const int wide, const int lines, const Depthwise *of,
                                  const Part *weight, Part bias, const NAME(DepthwiseLines) *my)
{
    const int most = wide ? MOST_ACROSS : 2;
    int64_t at = 0;
    for (; my->width - at > (most - 1) * WIDTH; at += most * WIDTH)
        NAME(depthwise_tile)(taps, stride, wide, lines, most, of, weight, bias, my, at);
    for (; at < my->width; at += WIDTH)
        NAME(depthwise_tile)(taps, stride, wide, lines, 1, of, weight, bias, my, at);
    for (int r = 0; at < my->line && r < lines; r++)
        memset(my->out + r * of->out_line + at, 0, (size_t)(my->line - at) * sizeof(float));
}

/* The functions that follow, for `count` floats of a channel from position `at` on. */
TARGET __attribute__((noinline)) static void NAME(depthwise_then)(const Depthwise *of, const Context *context, int64_t c,
                                                                  float *out, int64_t at, int64_t count)
{
    NAME(pointwise_row)(of->finish.then, context, out, c, at, count);
}

/* Lines first to last of one channel, counted through all images with the border between them. */
INLINE void NAME(depthwise_channel)(const int taps, const int stride, const int wide, const Depthwise *of,
                                    const Context *context, int64_t c, int64_t first, int64_t last)
{
    const Finish *finish = &of->finish;
    const int64_t lines = of->images > 1 ? of->out_image / of->out_line : of->height;
    const float *in = sg_at(context, of->in.buffer, of->in.offset) + c * of->in.stride;
    const float *added = finish->adds ? sg_at(context, finish->added.buffer, finish->added.offset) + c * finish->added.stride : 0;
    float *out = sg_at(context, of->out.buffer, of->out.offset) + c * of->out.stride;
    Part weight[MOST_TAPS * MOST_TAPS];
    for (int k = 0; k < taps * taps; k++)
        weight[k] = NAME(every)(of->weight[c * taps * taps + k]);
    const Part bias = NAME(every)(of->bias[c]);
    for (int64_t l = first; l < last;) {
        const int64_t y = l % lines, at = l * of->out_line;
        if (y >= of->height) {
            memset(out + at, 0, (size_t)of->out_line * sizeof(float));
            l++;
            continue;
        }
        const int64_t left = of->height - y < last - l ? of->height - y : last - l;
        const int64_t most = wide ? 2 : MOST_LINES, tiles = (left + most - 1) / most;
        const int64_t here = (left + tiles - 1) / tiles; /* nearly equal tiles */
        const int64_t pixels = of->width * (wide ? LANES : 1);
        const NAME(DepthwiseLines) my = {in + l / lines * of->in_image + y * stride * of->in_line,
                                         added ? added + at : 0, out + at, pixels, wide ? pixels : of->out_line};
        if (!wide && here == 4)
            NAME(depthwise_lines)(taps, stride, wide, 4, of, weight, bias, &my);
        else if (!wide && here == 3)
            NAME(depthwise_lines)(taps, stride, wide, 3, of, weight, bias, &my);
        else if (here == 2)
            NAME(depthwise_lines)(taps, stride, wide, 2, of, weight, bias, &my);
        else
            NAME(depthwise_lines)(taps, stride, wide, 1, of, weight, bias, &my);
        if (finish->then && !wide) /* whole registers: what follows is computed later, or zeroed by a mask */
            NAME(depthwise_then)(of, context, c, out + at, at, (here * of->out_line + WIDTH - 1) / WIDTH * WIDTH);
        for (int64_t r = 0; finish->then && wide && r < here; r++)
            NAME(depthwise_then)(of, context, c, out + at + r * of->out_line, at + r * of->out_line, pixels);
        l += here;
    }
}

#define DEPTHWISE_CASE(TAPS, STRIDE, WIDE)                                                         \
    TARGET static void NAME(depthwise_##TAPS##_##STRIDE##_##WIDE)(const Depthwise *of, const Context *context, int64_t c,  \
                                                                  int64_t first, int64_t last)                              \
    {                                                                                              \
        NAME(depthwise_channel)(TAPS, STRIDE, WIDE, of, context, c, first, last);                  \
    }
DEPTHWISE_CASE(3, 1, 0)
DEPTHWISE_CASE(3, 2, 0)
DEPTHWISE_CASE(5, 1, 0)
DEPTHWISE_CASE(5, 2, 0)
DEPTHWISE_CASE(7, 1, 0)
DEPTHWISE_CASE(3, 1, 1)
DEPTHWISE_CASE(3, 2, 1)
DEPTHWISE_CASE(5, 1, 1)
DEPTHWISE_CASE(5, 2, 1)
DEPTHWISE_CASE(7, 1, 1)

KERNEL_OF(depthwise)
{
    const Depthwise *my = of;
    void (*const channel[2][3][2])(const Depthwise *, const Context *, int64_t, int64_t, int64_t) = {
        {{NAME(depthwise_3_1_0), NAME(depthwise_3_2_0)}, {NAME(depthwise_5_1_0), NAME(depthwise_5_2_0)}, {NAME(depthwise_7_1_0), 0}},
        {{NAME(depthwise_3_1_1), NAME(depthwise_3_2_1)}, {NAME(depthwise_5_1_1), NAME(depthwise_5_2_1)}, {NAME(depthwise_7_1_1), 0}},
    };
    const int64_t lines = my->images > 1 ? (my->images - 1) * (my->out_image / my->out_line) + my->height : my->height;
    int64_t first = 0, last = lines;
    if (context->begin < context->end) { /* the lines that begin there */
        first = (context->begin + my->out_line - 1) / my->out_line;
        last = (context->end + my->out_line - 1) / my->out_line;
        last = last < lines ? last : lines;
    }
    const int64_t until = my->channels * (context->part + 1) / context->num_parts;
    for (int64_t c = my->channels * context->part / context->num_parts; c < until; c++)
        channel[my->pixel == LANES][my->taps / 2 - 1][my->stride - 1](my, context, c, first, last);
    return 0;
}
