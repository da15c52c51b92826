"""Shared units, several models on one set of GPUs: what MuxServe's paper and its authors measured, beside ours."""
