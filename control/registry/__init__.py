"""Registration of new nodes: each registers the key that identifies it afterwards."""
