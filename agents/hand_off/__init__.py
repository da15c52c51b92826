"""KV hand-off: what a prefill instance computed goes, node to node, to a decode instance that cuts layers elsewhere."""
