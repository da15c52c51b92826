"""Measured profiles: what they are of, where they are kept, and how local nodes are swept."""
