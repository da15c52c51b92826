"""Any-to-any models as graphs of unlike components."""
