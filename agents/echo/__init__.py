"""A scheduler without an engine: it answers with the prompt itself. For tests, and benches of what is before it."""
