"""OpenAI's `service_tier` as a priority: what a client asks for, and what it is told that it got."""

from typing import Literal

from policies.priority import Priority

ServiceTier = Literal["auto", "default", "flex", "scale", "priority"]

_PRIORITIES: dict[ServiceTier, Priority] = {
    "default": Priority.STANDARD,
    "flex": Priority.BATCH,
    "scale": Priority.INTERACTIVE,
    "priority": Priority.INTERACTIVE,
}
_TIERS: dict[Priority, ServiceTier] = {
    Priority.INTERACTIVE: "priority",
    Priority.STANDARD: "default",
    Priority.BATCH: "flex",
}


def granted_priority(asked: ServiceTier | None, ceiling: Priority) -> Priority:
    """The priority that was asked for, or that of the key where nothing was, or `auto`, or more than that."""
    return _PRIORITIES.get(asked or "auto", ceiling).at_most(ceiling)


def tier_of(priority: Priority) -> ServiceTier:
    return _TIERS[priority]
