"""Measures a node: how long the steps of its engine take, and what a pipeline costs beside computing."""
