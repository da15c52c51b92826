"""The planner: pure functions from what is seen to what should run."""

from control.allocator.allocate import solve

__all__ = ["solve"]
