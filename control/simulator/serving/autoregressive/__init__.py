"""The autoregressive pipeline as a station of the simulation: what its instances cost in time, and what their
schedulers do, compiled. It mirrors `agents.scheduler` (core, groups, sequence, hand_offs).
"""
