"""Sparse layers on NVIDIA GPUs: packing, kernels in Triton, and how they are launched."""
