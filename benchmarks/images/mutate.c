/* Damages program images, signs them again, loads and runs them: mutate SEED SECONDS IMAGE...
 *
 * Prints how often each word of sg_last_error came, and "ran" for images that ran, as JSON. Built with sanitizers, it
 * stops at the first access outside of the image, the arena or the tensors. */
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sparsegate.h>

#define MOST_FILES 64
#define MOST_WORDS 64
#define MOST_BYTES (1 << 20) /* of a tensor that is tried */
#define PATIENCE 2           /* seconds of a run */

static uint64_t state;
static sigjmp_buf late;

static uint64_t draw(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return below ? (state * 0x2545F4914F6CDD1DULL >> 11) % below : 0;
}

typedef struct {
    uint8_t *bytes;
    size_t size, head; /* the head ends where the data begins */
} File;

typedef struct {
    char words[128];
    long count;
} Outcome;

static Outcome outcomes[MOST_WORDS];
static int num_outcomes;

static void count(const char *words)
{
    int i = 0;
    while (i < num_outcomes && strncmp(outcomes[i].words, words, sizeof outcomes[i].words - 1))
        i++;
    if (i == MOST_WORDS)
        return;
    if (i == num_outcomes)
        snprintf(outcomes[num_outcomes++].words, sizeof outcomes[i].words, "%s", words);
    outcomes[i].count++;
}

static uint32_t crc32_of(const uint8_t *from, size_t size)
{
    static uint32_t table[256];
    if (!table[1])
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t sum = i;
            for (int bit = 0; bit < 8; bit++)
                sum = sum & 1 ? 0xEDB88320u ^ sum >> 1 : sum >> 1;
            table[i] = sum;
        }
    uint32_t sum = ~0u;
    for (size_t i = 0; i < size; i++)
        sum = table[(sum ^ from[i]) & 255] ^ sum >> 8;
    return ~sum;
}

static File read_whole(const char *path)
{
    File file = {0};
    FILE *from = fopen(path, "rb");
    if (!from) {
        perror(path);
        exit(2);
    }
    fseek(from, 0, SEEK_END);
    file.size = (size_t)ftell(from);
    rewind(from);
    file.bytes = malloc(file.size);
    if (fread(file.bytes, 1, file.size, from) != file.size)
        exit(2);
    fclose(from);
    int64_t counts[6]; /* inputs, outputs, buffers, operations, steps, bytes of structures */
    memcpy(counts, file.bytes + 48, sizeof counts);
    file.head = 96 + (size_t)((counts[0] + counts[1]) * 128 + counts[2] * 32 + counts[3] * 8 + counts[4] * 24 + counts[5]);
    file.head = file.head < file.size ? file.head : file.size;
    return file;
}

/* One change of a copy of a file. */
static void change(uint8_t *bytes, size_t size, size_t head)
{
    static const int64_t odd[] = {0, 1, -1, 2, 16, 64, 127, 512, INT32_MAX, (int64_t)1 << 31, (int64_t)1 << 40,
                                  ((int64_t)1 << 40) + 1, INT64_MAX, INT64_MIN};
    const size_t part = draw(4) ? head : size;
    size_t at = (16 + draw(part - 24)) / 8 * 8;
    int64_t number;
    memcpy(&number, bytes + at, 8);
    switch (draw(7)) {
    case 0: bytes[at + draw(8)] ^= (uint8_t)(1 << draw(8)); break;
    case 1: number = odd[draw(sizeof odd / sizeof *odd)]; memcpy(bytes + at, &number, 8); break;
    case 2: number = (int64_t)((uint64_t)number + draw(9) - 4); memcpy(bytes + at, &number, 8); break;
    case 3: number = (int64_t)((uint64_t)number << draw(8) >> draw(8)); memcpy(bytes + at, &number, 8); break;
    case 4: memmove(bytes + at, bytes + draw(part - 8) / 8 * 8, 8); break;
    case 5: bytes[16 + draw(part - 16)] = (uint8_t)draw(256); break;
    default:
        if (size > head + 4) { /* an index in the data */
            int32_t index;
            at = head + draw(size - head - 4) / 4 * 4;
            memcpy(&index, bytes + at, 4);
            index += (int32_t)draw(2001) - 1000;
            memcpy(bytes + at, &index, 4);
        }
    }
}

static void **tensors(int number, const sg_tensor *of)
{
    void **made = calloc((size_t)number + 1, sizeof(void *));
    for (int i = 0; i < number; i++)
        if (of[i].num_bytes > MOST_BYTES || !(made[i] = calloc(1, of[i].num_bytes + !of[i].num_bytes)))
            made[number] = made; /* too large */
    return made;
}

static void free_all(int number, void **made)
{
    for (int i = 0; i < number; i++)
        free(made[i]);
    free(made);
}

static void too_late(int signal)
{
    (void)signal;
    siglongjmp(late, 1);
}

static void run(sg_network *network)
{
    const sg_shapes shapes = sg_describe(network);
    void **inputs = tensors(shapes.num_inputs, shapes.inputs), **outputs = tensors(shapes.num_outputs, shapes.outputs);
    if (inputs[shapes.num_inputs] || outputs[shapes.num_outputs]) {
        count("too large to try");
    } else if (sigsetjmp(late, 1)) {
        count("takes longer than two seconds");
    } else {
        alarm(PATIENCE);
        const int failed = sg_run(network, 0, (const void *const *)inputs, outputs);
        alarm(0);
        count(failed ? sg_last_error() : "ran");
    }
    free_all(shapes.num_inputs, inputs);
    free_all(shapes.num_outputs, outputs);
}

static void attempt(const File *file)
{
    size_t size = file->size;
    if (!draw(50))
        size = draw(size + 1) / 8 * 8;
    uint8_t *bytes = malloc(size + !size); /* exact, so that the sanitizer sees what is read behind it */
    memcpy(bytes, file->bytes, size);
    if (size == file->size)
        for (uint64_t changes = 1 + (draw(3) == 0) * draw(4); changes; changes--)
            change(bytes, size, file->head);
    if (size > 32 && draw(33)) {
        const int64_t stated = (int64_t)size;
        if (size != file->size)
            memcpy(bytes + 16, &stated, 8);
        const uint32_t sum = crc32_of(bytes + 16, size - 16);
        memcpy(bytes + 12, &sum, 4);
    }
    sg_network *network = sg_load(bytes, size, 1, 1);
    if (network)
        run(network);
    else
        count(*sg_last_error() ? sg_last_error() : "FAULT: no words");
    sg_free(network);
    free(bytes);
}

int main(int argc, char **argv)
{
    File files[MOST_FILES];
    const int num_files = argc - 3 < MOST_FILES ? argc - 3 : MOST_FILES;
    if (num_files < 1)
        return 2;
    for (int i = 0; i < num_files; i++)
        files[i] = read_whole(argv[3 + i]);
    signal(SIGALRM, too_late);
    state = 0x9E3779B97F4A7C15ULL * (strtoull(argv[1], NULL, 10) + 1);
    const time_t end = time(NULL) + atol(argv[2]);
    long tried = 0;
    for (; tried % 64 || time(NULL) < end; tried++)
        attempt(files + draw((uint64_t)num_files));
    printf("{\"tried\": %ld, \"outcomes\": {", tried);
    for (int i = 0; i < num_outcomes; i++)
        printf("%s\"%s\": %ld", i ? ", " : "", outcomes[i].words, outcomes[i].count);
    printf("}}\n");
    return 0;
}
