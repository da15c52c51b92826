"""Tracing of one request from gateway to engine: its trace id, log lines that bear it, and spans."""
