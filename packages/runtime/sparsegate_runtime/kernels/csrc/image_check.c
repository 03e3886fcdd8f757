/* Checks the structures of an image, one function for each kind of operation. What a kernel reads and writes follows
 * from its structure; what it reads behind the last element is less than IMAGE_GUARD floats. */
#include "image.h"

#include "image_check.h"

/* ---- functions of elements ---- */

static void check_code(Check *check, const Pointwise *of)
{
    require(check, of->num_inputs >= 1 && of->num_inputs <= MOST_INPUTS);
    require(check, of->num_code >= 0 && of->num_code <= MOST_CODE);
    require(check, of->result >= 0 && of->result < MOST_REGISTERS);
    if (check->error)
        return;
    uint32_t written = (1u << of->num_inputs) - 1;
    for (int64_t k = 0; k < of->num_code && !check->error; k++) {
        const Instruction *code = of->code + k;
        const int32_t b = code->function >= F_ADD ? code->b : code->a;
        require(check, code->function >= 0 && code->function < F_NUM_FUNCTIONS);
        require(check, code->to >= 0 && code->to < MOST_REGISTERS && code->a >= 0 && code->a < MOST_REGISTERS);
        require(check, b >= 0 && b < MOST_REGISTERS);
        if (check->error)
            return;
        require(check, written >> code->a & 1 && written >> b & 1);
        written |= 1u << code->to;
    }
    require(check, written >> of->result & 1);
}

static void check_pointwise(Check *check, Pointwise *of)
{
    const Extent *extent = &check->extent;
    check_code(check, of);
    check_shape(check, of->shape, of->dims, 1);
    if (check->error)
        return;
    const int64_t last = of->dims - 1;
    require(check, of->out.stride[last] == 1);
    for (int64_t i = 0; i <= of->num_inputs; i++) {
        const View *view = i < of->num_inputs ? of->in + i : &of->out;
        Range range = range_at(check, view->offset);
        dims_along(check, &range, view, of->shape, last);
        along(check, &range, view->stride[last], extent->begin, extent->end);
        touch(check, view->buffer, range, view == &of->out ? WRITE : READ, 4);
    }
    POINT_OR_NULL(check, of->inside, extent->end);
}

/* What finishes the sums of `rows` rows at positions begin to end. */
static void check_finish(Check *check, Finish *finish, Pointwise *then, int64_t rows, int64_t begin, int64_t end)
{
    POINT_OR_NULL(check, finish->inside, end);
    if (finish->adds)
        touch_place(check, &finish->added, rows, begin, end, READ);
    finish->then = then;
    if (!then)
        return;
    check_code(check, then);
    for (int64_t i = 1; i < then->num_inputs && !check->error; i++) {
        const View *view = then->in + i;
        Range range = range_at(check, view->offset);
        along(check, &range, view->stride[0], 0, rows);
        along(check, &range, view->stride[1], begin, end);
        touch(check, view->buffer, range, READ, 4);
    }
    POINT_OR_NULL(check, then->inside, end);
}

/* ---- products with matrices ---- */

static void check_work(Check *check, const int64_t *work, int64_t rows)
{
    int64_t before = 0;
    for (int64_t r = 0; work && r <= rows; before = work[r++])
        if (work[r] < before || work[r] > MOST)
            wrong(check, IMAGE_WEIGHTS);
}

/* Images hold no plans for images that lie side by side. */
static void check_apart(Check *check, const Apart *apart)
{
    require(check, apart->line == 0 && apart->in_line == 0 && apart->pixels == 0);
}

static void check_multiply(Check *check, Multiply *of, Pointwise *then)
{
    const int64_t begin = check->extent.begin, end = check->extent.whole;
    check_size(check, of->num_rows, 0);
    check_size(check, of->rows.num_blocks, 1);
    require(check, of->tile >= 1 && of->tile <= 28);
    check_apart(check, &of->apart);
    if (check->error)
        return;
    const int64_t starts = product(check, of->rows.num_blocks, of->num_rows + 1);
    POINT(check, of->rows.start, starts);
    if (check->error)
        return;
    const int64_t count = of->rows.start[starts - 1];
    check_rising(check, of->rows.start, starts, count);
    POINT(check, of->rows.offset, count);
    POINT(check, of->rows.value, count);
    POINT(check, of->bias, of->num_rows);
    POINT(check, of->work, of->num_rows + 1);
    check_work(check, of->work, of->num_rows);
    touch_offsets(check, &of->in, of->rows.offset, count, begin, end);
    touch_place(check, &of->out, of->num_rows, begin, end, WRITE);
    check_finish(check, &of->finish, then, of->num_rows, begin, end);
}

static void check_dense_multiply(Check *check, DenseMultiply *of, Pointwise *then)
{
    const int64_t begin = check->extent.begin, end = check->extent.whole;
    check_size(check, of->num_rows, 0);
    check_size(check, of->num_inputs, 1);
    require(check, of->group == 4 && of->block >= 0 && of->block <= MOST);
    if (check->error)
        return;
    const int64_t padded = (of->num_rows + of->group - 1) / of->group * of->group;
    POINT(check, of->offset, of->num_inputs);
    POINT(check, of->weight, product(check, padded, of->num_inputs));
    POINT(check, of->bias, of->num_rows);
    touch_offsets(check, &of->in, of->offset, of->num_inputs, begin, end);
    touch_place(check, &of->out, of->num_rows, begin, end, WRITE);
    check_finish(check, &of->finish, then, of->num_rows, begin, end);
}

static void check_depthwise(Check *check, Depthwise *of, Pointwise *then)
{
    const int64_t shape[] = {of->channels, of->images, of->height, of->width};
    check_shape(check, shape, 4, 4);
    require(check, of->images >= 1 && of->height >= 1 && of->width >= 1 && of->out_line >= 1);
    require(check, of->taps == 3 || of->taps == 5);
    check_size(check, of->in_line, 0);
    check_size(check, of->in_image, 0);
    check_size(check, of->out_line, of->width);
    check_size(check, of->out_image, 0);
    require(check, of->images == 1 || of->out_image >= product(check, of->height, of->out_line));
    if (check->error)
        return;
    const int64_t lines = sum(check, product(check, of->images - 1, of->out_image / of->out_line), of->height);
    const int64_t end = sum(check, product(check, lines, of->out_line), LANES - 1) / LANES * LANES;
    POINT(check, of->weight, product(check, of->channels, of->taps * of->taps));
    POINT(check, of->bias, of->channels);
    Range in = range_at(check, of->in.offset);
    along(check, &in, of->in.stride, 0, of->channels);
    along(check, &in, of->in_image, 0, of->images);
    along(check, &in, of->in_line, 0, sum(check, 2 * (of->height - 1), of->taps));
    along(check, &in, 1, 0, sum(check, 2 * (of->width - 1), of->taps));
    touch(check, of->in.buffer, in, READ, 4);
    touch_place(check, &of->out, of->channels, 0, end, WRITE);
    check_finish(check, &of->finish, then, of->channels, 0, end);
}

static void check_slices(Check *check, Slices *slices, int64_t rows, int64_t columns)
{
    check_size(check, slices->num_slices, 0);
    if (check->error)
        return;
    POINT(check, slices->start, slices->num_slices + 1);
    if (check->error)
        return;
    const int64_t steps = slices->start[slices->num_slices];
    check_rising(check, slices->start, slices->num_slices + 1, steps);
    POINT(check, slices->row, 8 * slices->num_slices);
    check_indices(check, slices->row, 8 * slices->num_slices, -1, rows - 1);
    POINT(check, slices->column, 8 * steps);
    POINT(check, slices->value, 8 * steps);
    for (int64_t i = 0; slices->column && !check->error && i < 8 * steps; i++)
        if (slices->column[i] >= columns)
            wrong(check, IMAGE_WEIGHTS);
}

static void check_panels(Check *check, Panels *panels, int64_t rows, int64_t columns)
{
    check_size(check, panels->num_panels, 0);
    check_size(check, panels->rows, 1);
    check_size(check, panels->num_blocks, 0);
    if (check->error)
        return;
    require(check, panels->rows % LANES == 0 && panels->rows <= MOST_PANEL_ROWS);
    require(check, panels->num_panels == (rows + panels->rows - 1) / panels->rows && panels->num_blocks == (columns + 127) / 128);
    if (check->error)
        return;
    const int64_t seats = panels->num_panels * panels->num_blocks * panels->rows, slices = seats / LANES;
    POINT(check, panels->start, slices + 1);
    if (check->error)
        return;
    const int64_t steps = panels->start[slices];
    check_rising(check, panels->start, slices + 1, steps);
    POINT(check, panels->row, seats);
    POINT(check, panels->column, LANES * steps);
    POINT(check, panels->value, LANES * steps);
    for (int64_t i = 0; panels->row && !check->error && i < seats; i++)
        if (panels->row[i] > panels->rows)
            wrong(check, IMAGE_WEIGHTS);
    for (int64_t i = 0; panels->column && !check->error && i < LANES * steps; i++)
        if (panels->column[i] > 127)
            wrong(check, IMAGE_WEIGHTS);
}

static void check_matrix_vector(Check *check, MatrixVector *of, Pointwise *then)
{
    const int64_t begin = check->extent.begin, end = check->extent.end;
    check_size(check, of->num_rows, 0);
    check_size(check, of->num_inputs, 0);
    if (check->error)
        return;
    if (sg_vector_scratch(of) > check->header->scratch)
        wrong(check, IMAGE_SCRATCH);
    POINT_OR_NULL(check, of->dense, of->num_rows * ((of->num_inputs + LANES - 1) / LANES * LANES));
    if (of->panels.num_panels)
        check_panels(check, &of->panels, of->num_rows, of->num_inputs);
    else if (!of->dense)
        check_slices(check, &of->slices, of->num_rows, of->num_inputs);
    POINT(check, of->bias, of->num_rows);
    Range in = range_at(check, of->in.offset), out = range_at(check, of->out.offset);
    along(check, &in, of->in.stride, 0, of->num_inputs);
    along(check, &in, of->in_position, begin, end);
    along(check, &out, of->out.stride, 0, of->num_rows);
    along(check, &out, of->out_position, begin, end);
    touch(check, of->in.buffer, in, READ, 4);
    touch(check, of->out.buffer, out, WRITE, 4);
    require(check, !of->finish.adds);
    check_finish(check, &of->finish, then, of->num_rows, begin, end);
}

static void check_matrix_multiply(Check *check, MatrixMultiply *of)
{
    const int64_t *batch = of->batch;
    const int64_t a[] = {batch[0], batch[1], batch[2], of->rows, of->inner};
    const int64_t b[] = {batch[0], batch[1], batch[2], of->inner, of->columns};
    const int64_t out[] = {batch[0], batch[1], batch[2], of->rows, of->columns};
    check_shape(check, a, 5, 5);
    check_shape(check, out, 5, 5);
    require(check, of->b.stride[4] == 1 && of->out.stride[4] == 1);
    touch_view(check, &of->a, a, 5, READ_EXACT);
    touch_view(check, &of->b, b, 5, READ);
    touch_view(check, &of->out, out, 5, WRITE);
}

/* Rows of tokens, which are neighbours: image, head, feature, token. */
static void touch_tokens(Check *check, const View *view, const int64_t *shape, int64_t tokens, enum Use use)
{
    Range range = range_at(check, view->offset);
    dims_along(check, &range, view, shape, 3);
    along(check, &range, 1, 0, tokens);
    touch(check, view->buffer, range, use, 4);
}

static void check_attention(Check *check, Attention *of)
{
    const int64_t sizes[] = {of->images, of->heads, of->kv_heads, of->queries, of->keys, of->features, of->value_features};
    for (int i = 0; i < 7; i++)
        check_size(check, sizes[i], i < 3);
    if (check->error)
        return;
    const int64_t q[] = {of->images, of->heads, of->features}, k[] = {of->images, of->kv_heads, of->features};
    const int64_t v[] = {of->images, of->kv_heads, of->value_features}, out[] = {of->images, of->heads, of->value_features};
    const int64_t mask[] = {of->images, of->heads, of->queries, of->keys};
    require(check, of->heads % of->kv_heads == 0);
    touch_tokens(check, &of->q, q, of->queries, READ);
    touch_tokens(check, &of->k, k, of->keys, READ);
    touch_tokens(check, &of->v, v, of->keys, READ);
    touch_tokens(check, &of->out, out, of->queries, WRITE);
    require(check, of->mask_kind >= MASK_NONE && of->mask_kind <= MASK_BYTES);
    if (of->mask_kind != MASK_NONE) {
        Range range = range_at(check, of->mask.offset);
        dims_along(check, &range, &of->mask, mask, 4);
        touch(check, of->mask.buffer, range, READ_EXACT, of->mask_kind == MASK_BYTES ? 1 : 4);
    }
    if (sg_attention_scratch(of) > check->header->scratch)
        wrong(check, IMAGE_SCRATCH);
}

/* ---- norms, softmax, sums ---- */

static void check_channel_norm(Check *check, ChannelNorm *of)
{
    check_size(check, of->channels, 1);
    POINT_OR_NULL(check, of->weight, of->channels);
    POINT_OR_NULL(check, of->bias, of->channels);
    POINT_OR_NULL(check, of->inside, check->extent.end);
    touch_place(check, &of->in, of->channels, check->extent.begin, check->extent.end, READ);
    touch_place(check, &of->out, of->channels, check->extent.begin, check->extent.end, WRITE);
}

static void check_group_norm(Check *check, GroupNorm *of)
{
    const int64_t shape[] = {of->images, of->channels, of->lines};
    check_shape(check, shape, 3, 3);
    check_size(check, of->groups, 1);
    check_size(check, of->width, 0);
    require(check, !check->error && of->channels % of->groups == 0);
    product(check, of->lines, of->width);
    POINT_OR_NULL(check, of->weight, of->channels);
    POINT_OR_NULL(check, of->bias, of->channels);
    touch_tokens(check, &of->in, shape, of->width, READ);
    touch_tokens(check, &of->out, shape, of->width, WRITE);
}

static void check_softmax(Check *check, Softmax *of)
{
    check_shape(check, of->shape, of->dims, 1);
    if (check->error)
        return;
    touch_view(check, &of->in, of->shape, of->dims, READ);
    touch_view(check, &of->out, of->shape, of->dims, WRITE);
}

static void check_reduce(Check *check, Reduce *of)
{
    require(check, of->kind >= REDUCE_SUM && of->kind <= REDUCE_MIN);
    require(check, of->dims >= 0 && of->reduced >= 1 && of->dims <= MOST_DIMS && of->reduced <= MOST_DIMS);
    if (check->error)
        return;
    check_shape(check, of->shape, of->dims + of->reduced, 1);
    if (check->error)
        return;
    touch_view(check, &of->in, of->shape, of->dims + of->reduced, READ);
    touch_view(check, &of->out, of->shape, of->dims, WRITE);
}

/* ---- movement ---- */

static void check_copy(Check *check, Copy *of)
{
    check_shape(check, of->shape, of->dims, 0);
    if (check->error)
        return;
    touch_view(check, &of->in, of->shape, of->dims, READ_EXACT);
    touch_view(check, &of->out, of->shape, of->dims, WRITE_EXACT);
}

static void check_fill(Check *check, Fill *of)
{
    check_size(check, of->channels, 0);
    touch_place(check, &of->out, of->channels, check->extent.begin, check->extent.end, WRITE_EXACT);
}

static void check_phases(Check *check, Phases *of)
{
    const int64_t shape[] = {of->images, of->channels, of->height, of->width};
    const int64_t sizes[] = {of->stride_y, of->stride_x, of->phases_y, of->phases_x, of->phase, of->lead,
                             of->plane,    of->line,     of->rows,     of->columns};
    check_shape(check, shape, 4, 4);
    for (int i = 0; i < 10; i++)
        check_size(check, sizes[i], i < 4);
    require(check, of->first_y >= -MOST && of->first_y <= MOST && of->first_x >= -MOST && of->first_x <= MOST);
    touch_view(check, &of->in, shape, 4, READ_EXACT);
    if (check->error)
        return;
    const int64_t line = of->line > of->columns ? of->line : of->columns;
    const int64_t lines = of->rows ? sum(check, product(check, of->rows - 1, of->line), line) : 0;
    const int64_t plane = lines > of->plane ? lines : of->plane;
    Range range = range_at(check, of->out.offset);
    along(check, &range, of->out.stride, 0, of->channels);
    along(check, &range, of->phase, 0, product(check, of->phases_y, of->phases_x));
    along(check, &range, of->plane, 0, of->images);
    along(check, &range, 1, 0, sum(check, of->lead, plane));
    touch(check, of->out.buffer, range, WRITE_EXACT, 4);
}

static void check_pool(Check *check, Pool *of)
{
    const int64_t begin = check->extent.begin, end = check->extent.end;
    check_size(check, of->channels, 0);
    check_size(check, of->taps, 1);
    check_apart(check, &of->apart);
    POINT(check, of->offset, of->taps);
    POINT_OR_NULL(check, of->scale, end);
    POINT_OR_NULL(check, of->inside, end);
    touch_offsets(check, &of->in, 0, 0, begin, end); /* also without channels */
    for (int64_t c = 0; c < 2 && of->channels && !check->error; c++) { /* the first and the last channel */
        Place place = of->in;
        place.offset = sum(check, place.offset, product(check, c * (of->channels - 1), place.stride));
        touch_offsets(check, &place, of->offset, of->taps, begin, end);
    }
    touch_place(check, &of->out, of->channels, begin, end, WRITE);
}

static void check_upsample(Check *check, Upsample *of)
{
    const int64_t out[] = {of->images, of->channels, of->out_height, of->out_width};
    int64_t in[] = {of->images, of->channels, 0, 0};
    check_shape(check, out, 4, 4);
    if (check->error)
        return;
    POINT(check, of->line0, of->out_height);
    POINT(check, of->line1, of->out_height);
    POINT(check, of->line_weight, of->out_height);
    POINT(check, of->pixel0, of->out_width);
    POINT(check, of->pixel1, of->out_width);
    POINT(check, of->pixel_weight, of->out_width);
    check_indices(check, of->line0, of->out_height, 0, MOST - 1);
    check_indices(check, of->line1, of->out_height, 0, MOST - 1);
    check_indices(check, of->pixel0, of->out_width, 0, MOST - 1);
    check_indices(check, of->pixel1, of->out_width, 0, MOST - 1);
    for (int64_t y = 0; y < of->out_height && !check->error; y++) {
        const int64_t last = of->line0[y] > of->line1[y] ? of->line0[y] : of->line1[y];
        in[2] = last >= in[2] ? last + 1 : in[2];
    }
    for (int64_t x = 0; x < of->out_width && !check->error; x++) {
        const int64_t last = of->pixel0[x] > of->pixel1[x] ? of->pixel0[x] : of->pixel1[x];
        in[3] = last >= in[3] ? last + 1 : in[3];
    }
    touch_view(check, &of->in, in, 4, READ);
    touch_view(check, &of->out, out, 4, WRITE);
}

static void check_embedding(Check *check, Embedding *of)
{
    check_shape(check, of->shape, of->dims, 0);
    check_size(check, of->rows, 0);
    check_size(check, of->features, 0);
    if (check->error)
        return;
    POINT(check, of->table, product(check, of->rows, of->features));
    Range id = range_at(check, of->id.offset), out = range_at(check, of->out.offset);
    dims_along(check, &id, &of->id, of->shape, of->dims);
    dims_along(check, &out, &of->out, of->shape, of->dims);
    along(check, &out, of->feature, 0, of->features);
    touch(check, of->id.buffer, id, READ_EXACT, 8);
    touch(check, of->out.buffer, out, WRITE, 4);
}

static void check_cast(Check *check, Cast *of)
{
    check_shape(check, of->shape, of->dims, 0);
    require(check, of->bytes == 8 || of->bytes == 1);
    if (check->error)
        return;
    Range in = range_at(check, of->in.offset), out = range_at(check, of->out.offset);
    dims_along(check, &in, &of->in, of->shape, of->dims);
    dims_along(check, &out, &of->out, of->shape, of->dims);
    touch(check, of->in.buffer, in, READ_EXACT, of->bytes);
    touch(check, of->out.buffer, out, WRITE, 4);
}

/* ---- recurrent layers ---- */

static void check_panel(Check *check, Rows *rows, int64_t num_rows, int64_t hidden)
{
    require(check, rows->num_blocks == 1);
    POINT(check, rows->start, num_rows + 1);
    if (check->error)
        return;
    const int64_t count = rows->start[num_rows];
    check_rising(check, rows->start, num_rows + 1, count);
    POINT(check, rows->offset, count);
    POINT(check, rows->value, count);
    check_indices(check, rows->offset, count, 0, 4 * LANES * (hidden - 1));
    check_offsets(check, rows->offset, count);
}

/* Units of every image and step, which are neighbours. */
static void touch_units(Check *check, const View *view, const int64_t *shape, enum Use use)
{
    Range range = range_at(check, view->offset);
    dims_along(check, &range, view, shape, 2);
    along(check, &range, 1, 0, shape[2]);
    touch(check, view->buffer, range, use, 4);
}

static void check_recurrent(Check *check, RecurrentSteps *of)
{
    static const int64_t gates[] = {1, 1, 4, 3}; /* by the cells of recurrent.h */
    const int64_t lanes = of->single ? 1 : LANES;
    require(check, of->cell >= 0 && of->cell < 4);
    require(check, of->hidden >= 1 && of->hidden < 1 << 24); /* offsets have 32 bits */
    check_size(check, of->steps, 0);
    check_size(check, of->images, 0);
    if (check->error)
        return;
    const int64_t in[] = {of->images, of->steps, of->num_rows}, out[] = {of->images, of->steps, of->hidden};
    require(check, of->num_rows == gates[of->cell] * of->hidden);
    if (check->error)
        return;
    if (of->single)
        check_slices(check, &of->slices, of->num_rows, of->hidden);
    else
        check_panel(check, &of->rows, of->num_rows, of->hidden);
    POINT(check, of->bias, of->num_rows);
    touch_units(check, &of->in, in, READ_EXACT);
    touch_units(check, &of->out, out, WRITE);
    if (check->error)
        return;
    if (lanes * (4 * of->hidden + 2 * of->num_rows) + 8 * SLACK > check->header->scratch)
        wrong(check, IMAGE_SCRATCH);
}

/* ---- all kinds ---- */

int64_t sg_structure_size(int64_t kind)
{
    static const int64_t sizes[OP_NUM_KINDS] = {
        [OP_POINTWISE] = sizeof(Pointwise), [OP_MULTIPLY] = sizeof(Multiply),
        [OP_DENSE_MULTIPLY] = sizeof(DenseMultiply), [OP_MATRIX_VECTOR] = sizeof(MatrixVector),
        [OP_MATRIX_MULTIPLY] = sizeof(MatrixMultiply), [OP_ATTENTION] = sizeof(Attention),
        [OP_CHANNEL_NORM] = sizeof(ChannelNorm), [OP_GROUP_NORM] = sizeof(GroupNorm), [OP_SOFTMAX] = sizeof(Softmax),
        [OP_REDUCE] = sizeof(Reduce), [OP_COPY] = sizeof(Copy), [OP_FILL] = sizeof(Fill), [OP_PHASES] = sizeof(Phases),
        [OP_POOL] = sizeof(Pool), [OP_UPSAMPLE] = sizeof(Upsample), [OP_EMBEDDING] = sizeof(Embedding),
        [OP_RECURRENT] = sizeof(RecurrentSteps), [OP_CAST] = sizeof(Cast), [OP_DEPTHWISE] = sizeof(Depthwise),
    };
    return kind >= 0 && kind < OP_NUM_KINDS ? sizes[kind] : 0;
}

Finish *sg_finish_of(int64_t kind, void *of)
{
    switch (kind) {
    case OP_MULTIPLY: return &((Multiply *)of)->finish;
    case OP_DENSE_MULTIPLY: return &((DenseMultiply *)of)->finish;
    case OP_MATRIX_VECTOR: return &((MatrixVector *)of)->finish;
    case OP_DEPTHWISE: return &((Depthwise *)of)->finish;
    default: return 0;
    }
}

int64_t sg_check_structure(Check *check, int64_t kind, void *of, Pointwise *then)
{
    check->error = IMAGE_OK;
    switch (kind) {
    case OP_POINTWISE: check_pointwise(check, of); break;
    case OP_MULTIPLY: check_multiply(check, of, then); break;
    case OP_DENSE_MULTIPLY: check_dense_multiply(check, of, then); break;
    case OP_MATRIX_VECTOR: check_matrix_vector(check, of, then); break;
    case OP_MATRIX_MULTIPLY: check_matrix_multiply(check, of); break;
    case OP_ATTENTION: check_attention(check, of); break;
    case OP_CHANNEL_NORM: check_channel_norm(check, of); break;
    case OP_GROUP_NORM: check_group_norm(check, of); break;
    case OP_SOFTMAX: check_softmax(check, of); break;
    case OP_REDUCE: check_reduce(check, of); break;
    case OP_COPY: check_copy(check, of); break;
    case OP_FILL: check_fill(check, of); break;
    case OP_PHASES: check_phases(check, of); break;
    case OP_POOL: check_pool(check, of); break;
    case OP_UPSAMPLE: check_upsample(check, of); break;
    case OP_EMBEDDING: check_embedding(check, of); break;
    case OP_RECURRENT: check_recurrent(check, of); break;
    case OP_CAST: check_cast(check, of); break;
    case OP_DEPTHWISE: check_depthwise(check, of, then); break;
    default: wrong(check, IMAGE_KIND);
    }
    return check->error;
}
