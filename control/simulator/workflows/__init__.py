"""Runs of workflows over services that share places, on a simulated clock (DyOrc, section 8)."""
