"""Weights: their sources, and reading a range of layers out of a checkpoint without reading the rest."""
