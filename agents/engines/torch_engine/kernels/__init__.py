"""Kernels in Triton, for what torch has no operation that reads it as it lies in memory."""
