/* The parts of DLPack 1 that a call needs: https://dmlc.github.io/dlpack, version 1.3. Torch offers them
 * from 2.10 on. */
#ifndef SPARSEGATE_EXCHANGE_H
#define SPARSEGATE_EXCHANGE_H

#include <stdint.h>

typedef struct {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides; /* [ndim], in elements */
    uint64_t byte_offset;
} Tensor;

enum { ON_CPU = 1, IS_FLOAT = 2 };

typedef struct Managed {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct Managed *self);
    uint64_t flags;
    Tensor tensor;
} Managed;

typedef struct {
    uint32_t major, minor;
    void *previous;
    int (*allocate)(void);
    int (*take)(void);
    int (*wrap)(Managed *tensor, void **object); /* takes the tensor over */
    int (*look)(void *object, Tensor *tensor);   /* borrows; may be missing */
    int (*stream)(void);
} Exchange;

#endif
