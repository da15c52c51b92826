"""Values and computations offline: hardware, models, cost model, placement, enumeration, pruning."""
