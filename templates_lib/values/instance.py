"""A running instance, as far as a solve needs to see it."""

from dataclasses import dataclass

from templates_lib.values.offer import Market

LEAVING = frozenset({"draining", "terminating", "terminated", "failed"})
"""Instances in these states serve nothing that a plan may count on, and their nodes are on their way back."""


@dataclass(frozen=True, slots=True)
class Node:
    """A rented machine of an instance."""

    id: str
    offer: str
    """Key of the offer that it was rented from."""
    provider_id: str = ""
    last_heartbeat: str = ""


@dataclass(frozen=True, slots=True)
class Instance:
    """A running copy of a template. All its nodes are of one zone and one market."""

    id: str
    template_id: str
    zone: str
    market: Market
    state: str
    nodes: tuple[Node, ...]
    version: int = 0
    state_since: str = ""
    fleet: str = ""
