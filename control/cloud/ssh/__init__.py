"""A cloud of machines that somebody has: one node a host, started over SSH.

The record of a node is on its host, so that a control plane that was killed, or moved, finds it again by asking.
"""
