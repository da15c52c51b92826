"""The environment that a rented node makes for an engine which does not go together with the agent's packages."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineEnvironment:
    lock: str
    """Requirements with the hashes of their wheels, for Linux on x86-64: a path inside `templates_lib`."""
    python: str
    """Release of Python that they are for."""
    has: tuple[str, ...]
    """Requirements by which a Python that has the engine already is known: that of an image made for it."""
    disk_bytes: float
    """What it takes once it is installed."""
    minutes: float
    """What its installation adds to the start-up of a node."""
