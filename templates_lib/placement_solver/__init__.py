"""Exact placement: stages, nodes of each stage and layers of each stage for a bag of nodes."""
