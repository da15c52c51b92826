"""Number of instances, and how busy they are together."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from control.fleet.instance_view import InstanceView


@dataclass(frozen=True, slots=True)
class Headcount:
    states: dict[str, int]
    """Instances by state, those that are not terminated."""
    running: int
    """Requests."""
    waiting: int


def headcount(views: Iterable[InstanceView]) -> Headcount:
    views = tuple(views)
    states = Counter(view.state for view in views)
    return Headcount(dict(sorted(states.items())), sum(v.running for v in views), sum(v.waiting for v in views))
