/* Loads program images, and runs them. */
#include "image.h"

#include <string.h>

#include "kernels.h"
#include "processor.h"

#define LINE 64 /* bytes; memory of kernels begins at a whole line */
#define MOST_THREADS 4096

int64_t sg_engine_run(const Program *program, float *const *buffers, int64_t first, int64_t last, float *scratch,
                      int64_t num_threads, int64_t variant);

KERNEL const char *sg_image_error(int64_t code)
{
    static const char *const words[IMAGE_NUM_ERRORS] = {
        [IMAGE_OK] = "no error",
        [IMAGE_SHORT] = "the image is shorter than its header says: it was cut off",
        [IMAGE_OTHER] = "these bytes are no program image",
        [IMAGE_VERSION_NEW] = "the image is of a newer version; use a newer sparsegate-runtime",
        [IMAGE_CHECKSUM] = "the image does not match its checksum: it was damaged",
        [IMAGE_UNALIGNED] = "the image and its room must begin at a multiple of 8 bytes, memory at a multiple of 4",
        [IMAGE_ROOM] = "the room is smaller than sg_image_room says",
        [IMAGE_HEADER] = "the header of the image is damaged: a size is impossible",
        [IMAGE_TENSOR] = "the image is damaged: an input or output is impossible",
        [IMAGE_BUFFER] = "the image is damaged: a buffer is impossible",
        [IMAGE_STEP] = "the image is damaged: a step runs an operation or positions that do not exist",
        [IMAGE_KIND] = "the image has an operation that this version does not know",
        [IMAGE_NUMBER] = "the image is damaged: an operation has an impossible number",
        [IMAGE_WEIGHTS] = "the image is damaged: weights or their indices lie outside of it or are impossible",
        [IMAGE_ACCESS] = "the image is damaged: an operation would read or write outside of its memory",
        [IMAGE_SCRATCH] = "the image is damaged: an operation needs more scratch memory than the image states",
        [IMAGE_BAD_INDEX] = "an index is outside of its table; pass smaller indices",
        [IMAGE_THREADS] = "pass 1 to 4096 threads",
    };
    return code >= 0 && code < IMAGE_NUM_ERRORS ? words[code] : "an unknown error";
}

/* ---- the header ---- */

static uint32_t crc32_of(const uint8_t *bytes, int64_t count)
{
    uint32_t table[4][256], crc = ~0u;
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t rest = i;
        for (int bit = 0; bit < 8; bit++)
            rest = rest >> 1 ^ (rest & 1 ? 0xEDB88320u : 0);
        table[0][i] = rest;
    }
    for (int k = 1; k < 4; k++)
        for (int i = 0; i < 256; i++)
            table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 255];
    for (; count >= 4; count -= 4, bytes += 4) {
        uint32_t word;
        memcpy(&word, bytes, 4);
        crc ^= word;
        crc = table[3][crc & 255] ^ table[2][crc >> 8 & 255] ^ table[1][crc >> 16 & 255] ^ table[0][crc >> 24];
    }
    for (; count > 0; count--, bytes++)
        crc = crc >> 8 ^ table[0][(crc ^ *bytes) & 255];
    return ~crc;
}

/* Where the parts of an image lie, in bytes. */
typedef struct {
    int64_t tensors, buffers, kinds, steps, structures, data;
} Parts;

static Parts parts_of(const ImageHeader *header)
{
    Parts parts = {.tensors = sizeof(ImageHeader)};
    parts.buffers = parts.tensors + (header->num_inputs + header->num_outputs) * (int64_t)sizeof(SgTensor);
    parts.kinds = parts.buffers + header->num_buffers * (int64_t)sizeof(ImageBuffer);
    parts.steps = parts.kinds + header->num_operations * 8;
    parts.structures = parts.steps + header->num_steps * (int64_t)sizeof(Step);
    parts.data = (parts.structures + header->structures + LINE - 1) / LINE * LINE;
    return parts;
}

static int64_t check_header(const void *bytes, int64_t size)
{
    const ImageHeader *header = bytes;
    if ((uintptr_t)bytes % 8)
        return IMAGE_UNALIGNED;
    if (size < 8 || memcmp(bytes, "SGIMAGE", 8))
        return IMAGE_OTHER;
    if (size < (int64_t)sizeof(ImageHeader))
        return IMAGE_SHORT;
    if (header->version != IMAGE_VERSION)
        return IMAGE_VERSION_NEW;
    if (header->size > size)
        return IMAGE_SHORT;
    if (header->size < (int64_t)sizeof(ImageHeader) + 4 * IMAGE_GUARD)
        return IMAGE_HEADER;
    const int64_t counts[] = {header->num_inputs, header->num_outputs, header->num_buffers, header->num_operations,
                              header->num_steps,  header->structures};
    for (int i = 0; i < 6; i++)
        if (counts[i] < 0 || counts[i] > header->size)
            return IMAGE_HEADER;
    if (header->arena < 0 || header->arena > IMAGE_LIMIT || header->scratch < 0 || header->scratch > IMAGE_LIMIT)
        return IMAGE_HEADER;
    return header->structures % 8 || parts_of(header).data > header->size - 4 * IMAGE_GUARD ? IMAGE_HEADER : IMAGE_OK;
}

/* ---- inputs, outputs and buffers ---- */

static const int64_t WIDTH_OF[] = {4, 8, 1};

/* Bytes of a tensor; negative if its shape is impossible. */
static int64_t bytes_of(const SgTensor *tensor)
{
    int64_t bytes = 1;
    if (tensor->kind < TENSOR_FLOAT || tensor->kind > TENSOR_BOOL || tensor->dims < 0 || tensor->dims > IMAGE_DIMS)
        return -1;
    for (int32_t d = 0; d < tensor->dims; d++)
        if (tensor->shape[d] < 0 || tensor->shape[d] > IMAGE_LIMIT ||
            __builtin_mul_overflow(bytes, tensor->shape[d], &bytes) || bytes > IMAGE_LIMIT)
            return -1;
    return bytes * WIDTH_OF[tensor->kind];
}

static int64_t check_tensor(const SgImage *image, const SgTensor *tensor, int64_t kind, int64_t index)
{
    const int64_t bytes = bytes_of(tensor);
    if (bytes < 0 || tensor->buffer < 1 || tensor->buffer > image->header->num_buffers)
        return IMAGE_TENSOR;
    if (tensor->name[sizeof tensor->name - 1])
        return IMAGE_TENSOR;
    const ImageBuffer *buffer = image->buffers + tensor->buffer - 1;
    const int own = buffer->kind == kind && buffer->index == index;
    const int same = kind == BUFFER_OUTPUT && buffer->kind == BUFFER_INPUT;
    return (own || same) && buffer->bytes == bytes ? IMAGE_OK : IMAGE_TENSOR;
}

static int64_t check_buffer(const SgImage *image, int64_t number, int64_t data)
{
    const ImageBuffer *buffer = image->buffers + number - 1;
    const ImageHeader *header = image->header;
    if (buffer->bytes < 0 || buffer->bytes > 8 * IMAGE_LIMIT)
        return IMAGE_BUFFER;
    if (buffer->kind == BUFFER_CONSTANT) {
        const int64_t end = header->size - 4 * IMAGE_GUARD;
        const int inside = buffer->at >= data && buffer->at <= end && buffer->bytes <= end - buffer->at;
        return inside && buffer->at % 8 == 0 ? IMAGE_OK : IMAGE_BUFFER;
    }
    const int64_t is_output = buffer->kind == BUFFER_OUTPUT;
    if ((!is_output && buffer->kind != BUFFER_INPUT) || buffer->index < 0)
        return IMAGE_BUFFER;
    if (buffer->index >= (is_output ? header->num_outputs : header->num_inputs))
        return IMAGE_BUFFER;
    const SgTensor *tensor = image->tensors + (is_output ? header->num_inputs : 0) + buffer->index;
    return tensor->buffer == number ? IMAGE_OK : IMAGE_BUFFER;
}

static int64_t check_tables(const SgImage *image, int64_t data)
{
    const ImageHeader *header = image->header;
    int64_t error = IMAGE_OK;
    for (int64_t b = 1; b <= header->num_buffers && !error; b++)
        error = check_buffer(image, b, data);
    for (int64_t i = 0; i < header->num_inputs && !error; i++)
        error = check_tensor(image, image->tensors + i, BUFFER_INPUT, i);
    for (int64_t i = 0; i < header->num_outputs && !error; i++)
        error = check_tensor(image, image->tensors + header->num_inputs + i, BUFFER_OUTPUT, i);
    return error;
}

/* ---- operations and steps ---- */

static int64_t check_steps(const ImageHeader *header, const Step *steps, Extent *extents)
{
    for (int64_t s = 0; s < header->num_steps; s++) {
        const Step *step = steps + s;
        if (step->operation < 0 || step->operation >= header->num_operations)
            return IMAGE_STEP;
        if (step->begin < 0 || step->end < step->begin || step->end > IMAGE_LIMIT)
            return IMAGE_STEP;
        Extent *extent = extents + step->operation;
        const int64_t whole = step->begin + (step->end - step->begin + LANES - 1) / LANES * LANES;
        extent->begin = step->begin < extent->begin ? step->begin : extent->begin;
        extent->end = step->end > extent->end ? step->end : extent->end;
        extent->whole = whole > extent->whole ? whole : extent->whole;
    }
    for (int64_t o = 0; o < header->num_operations; o++)
        if (extents[o].begin > extents[o].end)
            return IMAGE_STEP; /* an operation that no step runs */
    return IMAGE_OK;
}

/* Checks the structures in `room`, a copy of those of the image. */
static int64_t check_operations(Check *check, const int64_t *kinds, Operation *operations, const Extent *extents, uint8_t *room)
{
    const ImageHeader *header = check->header;
    int64_t at = 0;
    for (int64_t o = 0; o < header->num_operations; o++) {
        const int64_t size = sg_structure_size(kinds[o]);
        if (!size)
            return IMAGE_KIND;
        if (size > header->structures - at)
            return IMAGE_NUMBER;
        void *of = room + at;
        at += size;
        const Finish *finish = sg_finish_of(kinds[o], of);
        Pointwise *then = 0;
        if (finish && finish->then_at) {
            if ((int64_t)sizeof(Pointwise) > header->structures - at)
                return IMAGE_NUMBER;
            then = (Pointwise *)(void *)(room + at);
            at += sizeof(Pointwise);
        }
        check->extent = extents[o];
        const int64_t error = sg_check_structure(check, kinds[o], of, then);
        if (error)
            return error;
        operations[o].kind = kinds[o];
        operations[o].of = of;
    }
    return at == header->structures ? IMAGE_OK : IMAGE_NUMBER;
}

static int64_t room_of(const ImageHeader *header)
{
    const int64_t head = (sizeof(SgImage) + 7) / 8 * 8;
    return head + header->num_operations * (int64_t)(sizeof(Operation) + sizeof(Extent)) + header->structures;
}

/* Bytes of room that `sg_image_load` needs; negative: an error's code with a minus sign. */
KERNEL int64_t sg_image_room(const void *bytes, int64_t size)
{
    const int64_t error = check_header(bytes, size);
    return error ? -error : room_of(bytes);
}

/* Loads an image from `bytes`, which stay where they are. The room begins with an SgImage. Returns an error. */
KERNEL int64_t sg_image_load(const void *bytes, int64_t size, void *room, int64_t room_size)
{
    const int64_t error = check_header(bytes, size);
    const ImageHeader *header = bytes;
    if (error)
        return error;
    if ((uintptr_t)room % 8)
        return IMAGE_UNALIGNED;
    if (room_size < room_of(header))
        return IMAGE_ROOM;
    if (crc32_of((const uint8_t *)bytes + 16, header->size - 16) != header->checksum)
        return IMAGE_CHECKSUM;
    const Parts parts = parts_of(header);
    const uint8_t *from = bytes;
    SgImage *image = room;
    Operation *operations = (Operation *)(void *)((uint8_t *)room + (sizeof(SgImage) + 7) / 8 * 8);
    Extent *extents = (Extent *)(void *)(operations + header->num_operations);
    uint8_t *structures = (uint8_t *)(extents + header->num_operations);
    *image = (SgImage){header, (const SgTensor *)(const void *)(from + parts.tensors),
                       (const ImageBuffer *)(const void *)(from + parts.buffers), from, {{0}, {0}, 0, 0}, 0};
    for (int64_t o = 0; o < header->num_operations; o++)
        extents[o] = (Extent){INT64_MAX, 0, 0};
    memcpy(structures, from + parts.structures, (size_t)header->structures);
    const Step *steps = (const Step *)(const void *)(from + parts.steps);
    const int64_t *kinds = (const int64_t *)(const void *)(from + parts.kinds);
    Check check = {header, from, image->buffers, parts.data, {0, 0, 0}, IMAGE_OK};
    int64_t found = check_tables(image, parts.data);
    if (!found)
        found = check_steps(header, steps, extents);
    if (!found)
        found = check_operations(&check, kinds, operations, extents, structures);
    image->program.operations = operations;
    image->program.steps = steps;
    image->program.num_steps = header->num_steps;
    image->program.scratch = (header->scratch + LANES - 1) / LANES * LANES;
    image->variant = sg_supports(header->variant) ? header->variant : sg_variant();
    return found;
}

/* Runs the image by the kernels of an instruction set, or the processor's best: -1. Returns the one that is used. */
KERNEL int64_t sg_image_use(SgImage *image, int64_t variant)
{
    image->variant = sg_supports(variant) ? variant : sg_variant();
    return image->variant;
}

KERNEL int64_t sg_image_num(const SgImage *image, int64_t outputs)
{
    return outputs ? image->header->num_outputs : image->header->num_inputs;
}

KERNEL const SgTensor *sg_image_tensor(const SgImage *image, int64_t outputs, int64_t index)
{
    if (index < 0 || index >= sg_image_num(image, outputs))
        return 0;
    return image->tensors + (outputs ? image->header->num_inputs : 0) + index;
}

/* ---- runs ---- */

static int64_t rounded(int64_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

/* Bytes of memory for one run at a time by this many threads; negative: an error. The caller zeroes it once. */
KERNEL int64_t sg_image_memory(const SgImage *image, int64_t threads)
{
    if (threads < 1 || threads > MOST_THREADS)
        return -IMAGE_THREADS;
    const int64_t pointers = rounded((image->header->num_buffers + 1) * (int64_t)sizeof(float *));
    const int64_t arena = rounded(4 * (image->header->arena + 2 * IMAGE_GUARD));
    return LINE + pointers + arena + 4 * threads * image->program.scratch;
}

/* Copies outputs that are inputs. */
static void copy_inputs(const SgImage *image, const void *const *inputs, void *const *outputs)
{
    for (int64_t i = 0; i < image->header->num_outputs; i++) {
        const SgTensor *tensor = sg_image_tensor(image, 1, i);
        const ImageBuffer *buffer = image->buffers + tensor->buffer - 1;
        if (buffer->kind == BUFFER_INPUT)
            memmove(outputs[i], inputs[buffer->index], (size_t)buffer->bytes);
    }
}

/* Computes the outputs from the inputs, each a tensor without gaps, in memory of `sg_image_memory` bytes for these
 * threads. Returns an error. */
KERNEL int64_t sg_image_run(const SgImage *image, void *memory, int64_t threads, const void *const *inputs,
                            void *const *outputs)
{
    const ImageHeader *header = image->header;
    if (threads < 1 || threads > MOST_THREADS)
        return IMAGE_THREADS;
    if ((uintptr_t)memory % 4)
        return IMAGE_UNALIGNED;
    uint8_t *line = (uint8_t *)memory + (-(uintptr_t)memory & (LINE - 1));
    float **buffers = (float **)(void *)line;
    float *arena = (float *)(void *)(line + rounded((header->num_buffers + 1) * (int64_t)sizeof(float *)));
    float *scratch = (float *)(void *)((uint8_t *)arena + rounded(4 * (header->arena + 2 * IMAGE_GUARD)));
    buffers[0] = arena + IMAGE_GUARD;
    for (int64_t b = 1; b <= header->num_buffers; b++) {
        const ImageBuffer *buffer = image->buffers + b - 1;
        const void *at = buffer->kind == BUFFER_INPUT    ? inputs[buffer->index]
                         : buffer->kind == BUFFER_OUTPUT ? outputs[buffer->index]
                                                         : image->bytes + buffer->at;
        buffers[b] = (float *)(uintptr_t)at;
    }
    if (sg_engine_run(&image->program, buffers, 0, header->num_steps, scratch, threads, image->variant))
        return IMAGE_BAD_INDEX;
    copy_inputs(image, inputs, outputs);
    return IMAGE_OK;
}
