"""Tensors between executors: a sidecar a node keeps them in shared memory, and pulls them from sidecars elsewhere."""
