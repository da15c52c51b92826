"""Stages whose layers are vLLM's: its kernels and paged attention, our scheduler, weights, sampling and hand-off."""
