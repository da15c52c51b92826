"""Models: their architecture, read from a checkpoint's own files, and where their weights lie."""
