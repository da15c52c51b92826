"""A scheduler without an engine: it answers with the prompt's own tokens. For tests, and benches of what is before it."""
