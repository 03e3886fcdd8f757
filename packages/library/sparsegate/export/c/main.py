"""The `main` of an exported network, in C, with NAME and words in braces for what is the network's own."""

MAIN = r"""
#ifdef SPARSEGATE_MAIN
#include <stdio.h>

/* Reads images from stdin, {inputs} numbers each: single precision as this machine writes them, or, with --uint8,
   bytes, which become (byte - {mean}) / {spread}. Prints the label of every image, which is the place of its
   largest output. */
static int classify(int bytes)
{
    static const size_t many = 16;
    const size_t size = NAME_INPUTS * (bytes ? sizeof(unsigned char) : sizeof(float));
    static ALIGNED float x[16 * NAME_INPUTS], y[16 * NAME_OUTPUTS]; /* static: too large for some stacks */
    static unsigned char raw[16 * NAME_INPUTS];
    unsigned long done = 0;
    for (;;) {
        void *place = x;
        if (bytes) place = raw;
        const size_t got = fread(place, 1, many * size, stdin);
        const long n = (long)(got / size);
        if (bytes) for (long i = 0; i < n * NAME_INPUTS; i++) x[i] = ((float)raw[i] - {mean}) / {spread};
        NAME_run(x, n, y);
        for (long b = 0; b < n; b++) {
            int best = 0;
            for (int i = 1; i < NAME_OUTPUTS; i++) if (y[b * NAME_OUTPUTS + i] > y[b * NAME_OUTPUTS + best]) best = i;
            printf("%d\n", best);
        }
        done += (unsigned long)n;
        if (got % size) {
            fprintf(stderr, "an image has %lu bytes, and %lu are left after %lu images\n",
                    (unsigned long)size, (unsigned long)(got % size), done);
            return 1;
        }
        if (got < many * size) break;
    }
    if (ferror(stdin) || fflush(stdout) || ferror(stdout)) {
        fprintf(stderr, "stdin cannot be read, or stdout not be written\n");
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
