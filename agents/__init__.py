"""What runs on a node. Empty until serving is built; the layering contract already covers it."""
