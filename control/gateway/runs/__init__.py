"""Runs of workflows: clients start them here, and the control plane, which has them executed, is asked for them."""
