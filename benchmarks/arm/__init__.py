"""The engine's kernels for ARM in qemu's user mode: results, and numbers of instructions."""
