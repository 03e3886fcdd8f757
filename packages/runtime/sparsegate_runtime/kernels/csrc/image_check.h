/* What the checks of a structure have in common: memory that is touched, and data that is pointed to. A part of
 * image_check.c. */

#define MOST 0x7fffffff /* the largest size of a dimension */

static void wrong(Check *check, int64_t error)
{
    if (!check->error)
        check->error = error;
}

static void require(Check *check, int holds)
{
    if (!holds)
        wrong(check, IMAGE_NUMBER);
}

static int64_t product(Check *check, int64_t one, int64_t other)
{
    int64_t all = 0;
    if (__builtin_mul_overflow(one, other, &all) || all > IMAGE_LIMIT || all < -IMAGE_LIMIT) {
        wrong(check, IMAGE_NUMBER);
        return 0;
    }
    return all;
}

static int64_t sum(Check *check, int64_t one, int64_t other)
{
    int64_t all = 0;
    if (__builtin_add_overflow(one, other, &all) || all > IMAGE_LIMIT || all < -IMAGE_LIMIT) {
        wrong(check, IMAGE_NUMBER);
        return 0;
    }
    return all;
}

/* ---- memory that kernels touch ---- */

/* Elements `low` to `high` of a buffer, `count` of them; none at all if a dimension is empty. */
typedef struct {
    int64_t low, high, count;
    int empty;
} Range;

static Range range_at(Check *check, int64_t offset)
{
    return (Range){offset, sum(check, offset, 1), 1, 0};
}

/* Elements `stride` apart, `first` to `end`. */
static void along(Check *check, Range *range, int64_t stride, int64_t first, int64_t end)
{
    if (end <= first) {
        range->empty = 1;
        return;
    }
    range->count = product(check, range->count, end - first);
    const int64_t a = product(check, first, stride), b = product(check, end - 1, stride);
    range->low = sum(check, range->low, a < b ? a : b);
    range->high = sum(check, range->high, a < b ? b : a);
}

static void dims_along(Check *check, Range *range, const View *view, const int64_t *shape, int64_t dims)
{
    for (int64_t d = 0; d < dims; d++)
        along(check, range, view->stride[d], 0, shape[d]);
}

enum Use {
    READ,       /* neighbours behind the last element are read, too */
    READ_EXACT,
    WRITE,      /* to the arena only */
    WRITE_EXACT
};

/* `width` bytes each. */
static void touch(Check *check, int64_t buffer, Range range, enum Use use, int64_t width)
{
    if (buffer < 0 || buffer > check->header->num_buffers) {
        wrong(check, IMAGE_NUMBER);
        return;
    }
    if (range.empty || check->error)
        return;
    int64_t bytes = 4 * check->header->arena;
    if (buffer) {
        const ImageBuffer *of = check->buffers + buffer - 1;
        const int fits = use == READ ? of->kind == BUFFER_CONSTANT : use == WRITE_EXACT ? of->kind == BUFFER_OUTPUT :
                         use == READ_EXACT ? of->kind != BUFFER_OUTPUT : 0;
        bytes = of->bytes;
        if (!fits)
            wrong(check, IMAGE_ACCESS);
    }
    if (range.low < 0 || range.high > bytes / width)
        wrong(check, IMAGE_ACCESS);
    /* a plan writes every element once, up to whole vectors: more would only take time */
    if ((use == WRITE || use == WRITE_EXACT) && range.count / LANES > bytes / width)
        wrong(check, IMAGE_ACCESS);
}

/* A tensor of channels and positions. */
static void touch_place(Check *check, const Place *place, int64_t channels, int64_t begin, int64_t end, enum Use use)
{
    Range range = range_at(check, place->offset);
    along(check, &range, place->stride, 0, channels);
    along(check, &range, 1, begin, end);
    touch(check, place->buffer, range, use, 4);
}

static void touch_view(Check *check, const View *view, const int64_t *shape, int64_t dims, enum Use use)
{
    Range range = range_at(check, view->offset);
    dims_along(check, &range, view, shape, dims);
    touch(check, view->buffer, range, use, 4);
}

/* ---- sizes and data ---- */

static void check_size(Check *check, int64_t size, int64_t least)
{
    require(check, size >= least && size <= MOST);
}

static void check_shape(Check *check, const int64_t *shape, int64_t dims, int64_t least_dims)
{
    require(check, dims >= least_dims && dims <= MOST_DIMS);
    int64_t all = 1;
    for (int64_t d = 0; d < dims && !check->error; d++) {
        check_size(check, shape[d], 0);
        all = product(check, all, shape[d] ? shape[d] : 1);
    }
}

/* The address of `count` elements of `width` bytes at byte `at`; NULL if they are not in the data. */
static const void *data_at(Check *check, uint64_t at, int64_t count, int64_t width)
{
    const int64_t end = check->header->size - 4 * IMAGE_GUARD, bytes = product(check, count, width);
    if (at < (uint64_t)check->data || at > (uint64_t)end || at % (uint64_t)width || count < 0 ||
        bytes > end - (int64_t)at)
        wrong(check, IMAGE_WEIGHTS);
    return check->error ? 0 : check->bytes + at;
}

/* Turns the number in a pointer's place into the pointer; OR_NULL leaves a zero. */
#define POINT(check, field, count) \
    ((field) = data_at(check, field##_at, count, (int64_t)sizeof *(field)))
#define POINT_OR_NULL(check, field, count)   \
    do {                                     \
        if (field##_at)                      \
            POINT(check, field, count);      \
    } while (0)

/* Whether numbers never fall, from zero (or more) up to `last`. */
static void check_rising(Check *check, const int32_t *number, int64_t count, int64_t most)
{
    int64_t before = 0;
    for (int64_t i = 0; number && i < count; before = number[i++])
        if (number[i] < before || number[i] > most)
            wrong(check, IMAGE_WEIGHTS);
}

/* Whether indices are in `least` to `most`. */
static void check_indices(Check *check, const int32_t *index, int64_t count, int64_t least, int64_t most)
{
    for (int64_t i = 0; index && i < count; i++)
        if (index[i] < least || index[i] > most)
            wrong(check, IMAGE_WEIGHTS);
}

/* Whether offsets in bytes are those of floats. */
static void check_offsets(Check *check, const int32_t *offset, int64_t count)
{
    int32_t odd = 0;
    for (int64_t i = 0; offset && i < count; i++) odd |= offset[i] & 3;
    if (odd)
        wrong(check, IMAGE_WEIGHTS);
}

/* Offsets in bytes: what is read from positions begin to end. */
static void touch_offsets(Check *check, const Place *place, const int32_t *offset, int64_t count, int64_t begin, int64_t end)
{
    int32_t least = 0, most = 0;
    for (int64_t i = 0; offset && i < count; i++) {
        least = i == 0 || offset[i] < least ? offset[i] : least;
        most = i == 0 || offset[i] > most ? offset[i] : most;
    }
    check_offsets(check, offset, count);
    Range range = range_at(check, place->offset);
    along(check, &range, 1, begin + least / 4, end + most / 4);
    range.empty |= !count || end <= begin;
    touch(check, place->buffer, range, READ, 4); /* the buffer must exist in any case */
}
