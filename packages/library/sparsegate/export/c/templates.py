"""The parts of an exported C file that are the same for every network.

`NAME` stands for the network's name, and words in braces for its sizes.
"""

HEADER = """/* {about} Written by sparsegate {version}. */
#ifndef NAME_H
#define NAME_H

#define NAME_INPUTS {inputs}
#define NAME_OUTPUTS {outputs}

#ifdef __cplusplus
extern "C" {
#endif

/* One image of {shape} values, row by row; {outputs} outputs; {one} bytes of stack. */
void NAME_one(const float *image, float *logits);

/* Sixteen images, interleaved: the first value of each, then the second ...;
 * {stack} bytes of stack. */
void NAME_panel(const float (*images)[16], float (*logits)[16]);

/* Any number of images, one after the other; computed sixteen at a time, the rest one by one. */
void NAME_run(const float *images, long n, float *logits);

/* The functions write to `logits` and the stack only, so several threads may call them at once. */

#ifdef __cplusplus
}
#endif
#endif
"""
"""The header."""

ENTRY = """
void NAME_one(const float *image, float *logits)
{
#if LANES > 1
    one(image, logits);
#else
    panel(image, logits);
#endif
}

#if LANES > 1
PART void sixteen(const float *images, float *logits)
{
    ALIGNED float x[NAME_INPUTS * 16], y[NAME_OUTPUTS * 16];
    for (int i = 0; i < NAME_INPUTS; i++)
        for (int b = 0; b < 16; b++) x[i * 16 + b] = images[b * NAME_INPUTS + i];
    panel(x, y);
    for (int b = 0; b < 16; b++)
        for (int i = 0; i < NAME_OUTPUTS; i++) logits[b * NAME_OUTPUTS + i] = y[i * 16 + b];
}

void NAME_panel(const float (*images)[16], float (*logits)[16])
{
    panel(images[0], logits[0]);
}
#else
void NAME_panel(const float (*images)[16], float (*logits)[16])
{
    float x[NAME_INPUTS], y[NAME_OUTPUTS];
    for (int b = 0; b < 16; b++) {
        for (int i = 0; i < NAME_INPUTS; i++) x[i] = images[i][b];
        panel(x, y);
        for (int i = 0; i < NAME_OUTPUTS; i++) logits[i][b] = y[i];
    }
}
#endif

void NAME_run(const float *images, long n, float *logits)
{
#if LANES > 1
    for (; n >= 16; n -= 16, images += 16 * NAME_INPUTS, logits += 16 * NAME_OUTPUTS)
        sixteen(images, logits);
#endif
    for (; n > 0; n--, images += NAME_INPUTS, logits += NAME_OUTPUTS) NAME_one(images, logits);
}
"""
"""The functions that a program calls."""

MAIN = r"""
#ifdef SPARSEGATE_MAIN
#include <stdio.h>

/* Reads images of {inputs} numbers from stdin: floats in this machine's byte order, or with
   --uint8 bytes, which become (byte - {mean}) / {spread}.
   Prints the label of each image: the index of its largest output. */
static int classify(int bytes)
{
    static const size_t many = 16;
    const size_t size = NAME_INPUTS * (bytes ? sizeof(unsigned char) : sizeof(float));
    /* static: too large for some stacks */
    static ALIGNED float x[16 * NAME_INPUTS], y[16 * NAME_OUTPUTS];
    static unsigned char raw[16 * NAME_INPUTS];
    unsigned long done = 0;
    for (;;) {
        void *target = x;
        if (bytes) target = raw;
        const size_t got = fread(target, 1, many * size, stdin);
        const long n = (long)(got / size);
        if (bytes)
            for (long i = 0; i < n * NAME_INPUTS; i++)
                x[i] = ((float)raw[i] - {mean}) / {spread};
        NAME_run(x, n, y);
        for (long b = 0; b < n; b++) {
            const float *logits = y + b * NAME_OUTPUTS;
            int best = 0;
            for (int i = 1; i < NAME_OUTPUTS; i++) if (logits[i] > logits[best]) best = i;
            printf("%d\n", best);
        }
        done += (unsigned long)n;
        if (got % size) {
            fprintf(stderr,
                    "expected %lu bytes per image, got %lu after the last of %lu whole images\n",
                    (unsigned long)size, (unsigned long)(got % size), done);
            return 1;
        }
        if (got < many * size) break;
    }
    if (ferror(stdin) || fflush(stdout) || ferror(stdout)) {
        fprintf(stderr, "cannot read stdin, or cannot write stdout\n");
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    const int bytes = argc == 2 && !strcmp(argv[1], "--uint8");
    if (argc > 1 && !bytes) {
        fprintf(stderr, "usage: %s [--uint8] < images > labels\n", argv[0]);
        return 2;
    }
    return classify(bytes);
}
#endif
"""
"""A program that classifies images from stdin."""
