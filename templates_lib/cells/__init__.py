"""Cells: the best deployment of a whole model on 1, 2, 4 ... GPUs, and mixtures of them (Cornserve, section 4.3)."""
