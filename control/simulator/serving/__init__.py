"""Serving over a fleet that comes and goes: requests in, what became of each of them out.

Its values: `Requests`, `FleetTimeline` (of `InstanceLife`s, each of which runs the model of a station), `Served`.
"""
