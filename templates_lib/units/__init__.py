"""Shared units: several models, their members, on one set of GPUs. Values and arithmetic."""
