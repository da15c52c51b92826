"""Transfer: what moves bytes between processes, over links from node to node."""
