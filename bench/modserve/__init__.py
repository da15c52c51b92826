"""The ModServe paper's evaluation (section 5) in simulation: pools by stage beside monoliths."""
