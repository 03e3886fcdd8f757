"""The header of an exported network, in C, with NAME and words in braces for what is the network's own."""

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

/* Sixteen images, a value of all sixteen side by side; {stack} bytes of stack. */
void NAME_panel(const float (*images)[16], float (*logits)[16]);

/* Any number of images, one after the other: panels as long as there are sixteen, then one by one. */
void NAME_run(const float *images, long n, float *logits);

/* All of them write to nothing but their second or third argument and the stack, so threads may call them at once. */

#ifdef __cplusplus
}
#endif
#endif
"""
