"""The scheduler of a shared unit: several models on one set of GPUs."""
