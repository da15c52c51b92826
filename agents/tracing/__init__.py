"""How one request is followed from gateway to engine: its trace id, log lines that bear it, and spans."""
