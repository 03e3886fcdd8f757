"""The C functions of layers with weights, as text; a file holds those that its network calls."""

from __future__ import annotations

from dataclasses import dataclass

TYPES = """
/* Weights of a layer, row by row; a row makes one output. */
struct rows {
    const uint8_t *step;  /* distance of each weight from the one before; null: all are kept */
    const row_count *count;  /* weights of each row; null if no weight is left out */
    const void *value;    /* float or int8_t */
    const void *bias;     /* float, or int32_t in units of the sums */
    const void *factor;   /* what sums are multiplied by: float, or int32_t with `shift` */
    const uint8_t *shift;
    int32_t size;         /* weights of a row, if none is left out */
    float low, high;      /* bounds of the results */
    int32_t least, most;  /* the same for results of 8 bits */
    int32_t zero, target; /* the 8-bit values of the inputs and of the results that mean zero */
};
"""

COUNT_OF = """
static int32_t count_of(const struct rows *rows, int32_t row)
{
    return rows->count ? rows->count[row] : rows->size;
}
"""

BOUNDED = """
static float bounded(float value, float low, float high)
{
    return value < low ? low : value > high ? high : value;
}
"""

RESCALED = """
/* A sum times factor / 2^shift, rounded. */
static int32_t rescaled(int32_t sum, int32_t factor, int shift)
{
    return (int32_t)(((int64_t)sum * factor + ((int64_t)1 << (shift - 1))) >> shift);
}

static int8_t within(int32_t value, int32_t least, int32_t most)
{
    return (int8_t)(value < least ? least : value > most ? most : value);
}
"""

TO_INT8 = """
static int8_t to_int8(float value)
{
    value = value > -128.0f ? value : -128.0f;
    return (int8_t)((int32_t)((value < 127.0f ? value : 127.0f) + 128.5f) - 128);
}
"""

LINEAR_TYPES = """
struct linear {
    struct rows rows;
    int32_t positions, inputs, outputs;
};
"""

LINEAR = """
static void linear_KIND(const struct linear *l, const INPUT *x, OUTPUT *y)
{
    const struct rows *r = &l->rows;
    for (int32_t p = 0; p < l->positions; p++, x += l->inputs) {
        const WEIGHT *weight = r->value;
        const uint8_t *step = r->step;
        for (int32_t o = 0; o < l->outputs; o++) {
            const INPUT *at = x;
            SUM sum = FIRST;
            if (step)
                for (int32_t n = count_of(r, o); n > 0; n--) {
                    at += *step++;
                    sum += (SUM)*weight++ * (SUM)*at;
                }
            else
                for (int32_t n = r->size; n > 0; n--) sum += (SUM)*weight++ * (SUM)*at++;
            *y++ = DONE;
        }
    }
}
"""

CONV_TYPES = """
struct conv {
    struct rows rows;
    int32_t inputs, height, width; /* of a group */
    int32_t outputs, group;        /* rows in all, and of a group */
    int32_t out_height, out_width; /* before tiles are taken together */
    int32_t kernel_height, kernel_width, down, across, above, before, gap_down, gap_across;
    int32_t tile_height, tile_width;
    int32_t most_taps;             /* that the memory has room for */
};

struct walk {
    int32_t channel, line, pixel;
};
"""

CONV = """
/* A weight, and where it reads: from the corner of the window, in elements, lines and pixels. */
struct tap_KIND {
    int32_t at;
    int16_t line, pixel;
    SUM weight;
};

static struct walk taps_KIND(const struct conv *l, struct walk w, const uint8_t *step,
                             const WEIGHT *weight, int32_t count, struct tap_KIND *tap)
{
    for (int32_t n = 0; n < count; n++) {
        w.pixel += step ? step[n] : 1;
        while (w.pixel >= l->kernel_width) {
            w.pixel -= l->kernel_width;
            if (++w.line == l->kernel_height) w.line = 0, w.channel++;
        }
        tap[n].line = (int16_t)(w.line * l->gap_down);
        tap[n].pixel = (int16_t)(w.pixel * l->gap_across);
        tap[n].at = (w.channel * l->height + tap[n].line) * l->width + tap[n].pixel;
        tap[n].weight = weight[n];
    }
    return w;
}

/* Adds the taps to a line of sums: four pixels at a time inside the image, one at its edges. */
static void line_KIND(const struct conv *l, const INPUT *x, int32_t line,
                      const struct tap_KIND *tap, int32_t count, SUM *sum)
{
    const int32_t next = l->across, top = line * l->down - l->above;
    const int32_t reach = (l->kernel_width - 1) * l->gap_across;
    const int inside = top >= 0 && top + (l->kernel_height - 1) * l->gap_down < l->height;
    for (int32_t i = 0; i < l->out_width;) {
        const int32_t left = i * next - l->before, corner = top * l->width + left;
        if (inside && left >= 0 && left + reach + 3 * next < l->width && i + 4 <= l->out_width) {
            SUM a = sum[i], b = sum[i + 1], c = sum[i + 2], d = sum[i + 3];
            for (const struct tap_KIND *t = tap; t < tap + count; t++) {
                const INPUT *from = x + corner + t->at;
                const SUM weight = t->weight;
                a += weight * (SUM)from[0];
                b += weight * (SUM)from[next];
                c += weight * (SUM)from[2 * next];
                d += weight * (SUM)from[3 * next];
            }
            sum[i] = a, sum[i + 1] = b, sum[i + 2] = c, sum[i + 3] = d;
            i += 4;
        } else {
            SUM a = sum[i];
            for (const struct tap_KIND *t = tap; t < tap + count; t++) {
                const int32_t y = top + t->line, z = left + t->pixel;
                if (y >= 0 && y < l->height && z >= 0 && z < l->width)
                    a += t->weight * (SUM)x[corner + t->at];
                else
                    a += t->weight * (SUM)l->rows.zero;
            }
            sum[i++] = a;
        }
    }
}

static void conv_KIND(const struct conv *l, const INPUT *x, OUTPUT *y, void *memory)
{
    const struct rows *r = &l->rows;
    const WEIGHT *weight = r->value;
    const uint8_t *step = r->step;
    const int32_t width = l->out_width / l->tile_width;
    const int is_tiled = l->tile_height * l->tile_width > 1;
    SUM *line = memory, *best = is_tiled ? line + l->out_width : line;
    struct tap_KIND *tap = (struct tap_KIND *)(best + width);
    const struct walk start = {0, 0, -1};
    for (int32_t o = 0; o < l->outputs; o++) {
        const INPUT *image = x + o / l->group * l->inputs * l->height * l->width;
        const int32_t count = count_of(r, o), most = l->most_taps;
        if (count <= most) taps_KIND(l, start, step, weight, count, tap);
        for (int32_t i = 0; i < l->out_height; i++) {
            for (int32_t j = 0; j < l->out_width; j++) line[j] = FIRST;
            struct walk walk = start;
            for (int32_t n = 0; n < count; n += most) {
                const int32_t some = count - n < most ? count - n : most;
                if (count > most)
                    walk = taps_KIND(l, walk, step ? step + n : step, weight + n, some, tap);
                line_KIND(l, image, i, tap, some, line);
            }
            if (is_tiled)
                for (int32_t j = 0; j < l->out_width; j++) {
                    const int32_t at = j / l->tile_width;
                    if ((i % l->tile_height == 0 && j % l->tile_width == 0) || line[j] > best[at])
                        best[at] = line[j];
                }
            if (i % l->tile_height == l->tile_height - 1)
                for (int32_t j = 0; j < width; j++) {
                    const SUM sum = best[j];
                    *y++ = DONE;
                }
        }
        weight += count;
        if (step) step += count;
    }
}
"""

TRANSPOSED_TYPES = """
struct transposed {
    struct rows rows;              /* a row has the weights of one input channel */
    int32_t inputs, height, width; /* channels in all */
    int32_t outputs, group;        /* output channels of a group, and input channels of a group */
    int32_t out_height, out_width;
    int32_t kernel_height, kernel_width, down, across, above, before, gap_down, gap_across;
};
"""

TRANSPOSED = """
static void transposed_KIND(const struct transposed *l, const float *x, float *y)
{
    const struct rows *r = &l->rows;
    const WEIGHT *weight = r->value;
    const uint8_t *step = r->step;
    const float *factor = r->factor, *bias = r->bias;
    const int32_t plane = l->out_height * l->out_width, window = l->kernel_height * l->kernel_width;
    const int32_t channels = l->inputs / l->group * l->outputs;
    for (int32_t i = 0; i < channels * plane; i++) y[i] = 0.0f;
    for (int32_t c = 0; c < l->inputs; c++, x += l->height * l->width) {
        int32_t place = -1;
        for (int32_t n = count_of(r, c); n > 0; n--) {
            place += step ? *step++ : 1;
            const float value = (float)*weight++;
            const int32_t o = c / l->group * l->outputs + place / window, at = place % window;
            const int32_t above = at / l->kernel_width * l->gap_down - l->above;
            const int32_t before = at % l->kernel_width * l->gap_across - l->before;
            for (int32_t i = 0; i < l->height; i++)
                for (int32_t j = 0; j < l->width; j++) {
                    const int32_t line = i * l->down + above, pixel = j * l->across + before;
                    if (line >= 0 && line < l->out_height && pixel >= 0 && pixel < l->out_width)
                        y[o * plane + line * l->out_width + pixel] += value * x[i * l->width + j];
                }
        }
    }
    for (int32_t o = 0; o < channels; o++)
        for (int32_t i = 0; i < plane; i++, y++)
            *y = *y * (factor ? factor[o] : 1.0f) + (bias ? bias[o] : 0.0f);
}
"""

SIGMOID = """
static float sigmoid(float value)
{
    return 1.0f / (1.0f + expf(-value));
}
"""

GRU = """
/* What the gates make of the state: reset, update, new; `a` from the inputs, `b` from the state. */
static void gru(int32_t size, const float *a, const float *b, const float *state, float *y)
{
    for (int32_t i = 0; i < size; i++) {
        const float reset = sigmoid(a[i] + b[i]), update = sigmoid(a[size + i] + b[size + i]);
        const float fresh = tanhf(a[2 * size + i] + reset * b[2 * size + i]);
        y[i] = fresh + update * (state[i] - fresh);
    }
}
"""

LSTM = """
/* What the gates make of the cells: input, forget, new, output; `cell` is replaced. */
static void lstm(int32_t size, const float *a, const float *b, float *cell, float *y)
{
    for (int32_t i = 0; i < size; i++) {
        const float in = sigmoid(a[i] + b[i]), keep = sigmoid(a[size + i] + b[size + i]);
        const float fresh = tanhf(a[2 * size + i] + b[2 * size + i]);
        cell[i] = keep * cell[i] + in * fresh;
        y[i] = sigmoid(a[3 * size + i] + b[3 * size + i]) * tanhf(cell[i]);
    }
}
"""


@dataclass(frozen=True)
class NumberTypes:
    """The types of a layer's numbers and how its sums begin and end, in C."""

    input: str
    weight: str
    sum: str
    output: str
    first: str
    done: str
    needs: str


FLOAT_BIAS = "(r->bias ? ((const float *)r->bias)[o] : 0.0f)"
INT_BIAS = "((const int32_t *)r->bias)[o]"
FACTOR = "((const float *)r->factor)[o]"
ARITHMETICS = {
    "f32": NumberTypes(
        "float", "float", "float", "float", FLOAT_BIAS, "bounded(sum, r->low, r->high)", BOUNDED
    ),
    "i8": NumberTypes(
        "int8_t",
        "int8_t",
        "int32_t",
        "int8_t",
        INT_BIAS,
        "within(rescaled(sum, ((const int32_t *)r->factor)[o], r->shift[o]) + r->target, "
        "r->least, r->most)",
        RESCALED,
    ),
    "i8_f32": NumberTypes(
        "int8_t",
        "int8_t",
        "int32_t",
        "float",
        INT_BIAS,
        f"bounded((float)sum * {FACTOR}, r->low, r->high)",
        BOUNDED,
    ),
    "f32_i8": NumberTypes(
        "float",
        "int8_t",
        "float",
        "float",
        "0.0f",
        f"bounded(sum * {FACTOR} + {FLOAT_BIAS}, r->low, r->high)",
        BOUNDED,
    ),
}
"""Single precision; 8 bits to 8 bits or to single precision; and 8 bits for weights only."""


def kernel(template: str, kind: str) -> str:
    """A function for one arithmetic."""
    how = ARITHMETICS[kind]
    words = {"KIND": kind, "INPUT": how.input, "WEIGHT": how.weight, "OUTPUT": how.output}
    words |= {"SUM": how.sum, "FIRST": how.first, "DONE": how.done}
    for word, text in words.items():
        template = template.replace(word, text)
    return template
