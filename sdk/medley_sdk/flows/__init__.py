"""Workflows that are executed: what their code calls, the processes that run it and its services, and what goes over
their pipes."""
