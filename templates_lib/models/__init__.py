"""What a model is: its architecture, read from a checkpoint's own files, and where its weights lie."""
