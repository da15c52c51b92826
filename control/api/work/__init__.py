"""Work that takes longer than a request: done by worker processes, so that no request waits for a solver or its
memory."""
