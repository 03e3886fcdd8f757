/* Which kernels this processor can run. */
#ifndef SPARSEGATE_PROCESSOR_H
#define SPARSEGATE_PROCESSOR_H

#include <stdint.h>

int64_t sg_variant(void);                  /* the fastest */
int64_t sg_supports(int64_t variant);      /* whether this processor runs the kernels of an instruction set */

#endif
