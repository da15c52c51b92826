"""Edges: what carries activations from a node of one stage to a node of the next."""
