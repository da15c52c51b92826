"""Pools by stage in simulation: encoders beside text instances, or both in one (ModServe, sections 4.2, 4.3 and 5)."""
