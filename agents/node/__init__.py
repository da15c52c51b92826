"""The agent of one node: known to the hub by its key, it runs what the hub asks for and says how that goes."""
