"""What can be built: hardware, models, cost model, placement, enumeration, pruning, and the values all share."""
