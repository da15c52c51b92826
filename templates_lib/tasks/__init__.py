"""Tasks, once they are recorded: the graph, the request types and the paths that their calls make."""
