"""Transfer: what moves bytes between processes, by shared memory inside a node and over links to other nodes."""
