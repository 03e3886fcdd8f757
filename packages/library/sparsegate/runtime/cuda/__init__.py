"""Sparse layers on NVIDIA GPUs: packed weights and the Triton kernels that multiply them.

The modules use these words in one sense only:

- **word**: one stored weight with its column; 32 bits for bf16 and fp16.
- **band**: consecutive rows, sorted by length, whose words are padded to one width.
- **tile**: how much of the output one program of the GPU computes from bands.
- **chunk**: the words of one row that one thread multiplies, for a single image.
- **cut**: how the rows of a layer are divided into programs and chunks.
- **record**: the words, biases and row numbers of one program of a cut.
- **bank**: one of the 32 parts of shared memory; threads that read the same bank wait.
"""
