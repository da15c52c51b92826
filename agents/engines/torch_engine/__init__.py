"""The `torch` engine: any contiguous range of layers of a decoder, on CPU or GPU, with a paged KV cache."""
