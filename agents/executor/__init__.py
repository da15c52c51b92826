"""Executors of components of a graph: queue, batches and engine in one process."""
