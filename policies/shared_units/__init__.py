"""Which models share which GPUs by MuxServe's algorithms, and what that is compared with. All GPUs are of one type."""
