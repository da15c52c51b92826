"""Intents: what is asked of a cloud, recorded before the call, settled after it."""

from dataclasses import dataclass
from enum import StrEnum


class IntentKind(StrEnum):
    CREATE = "create"
    TERMINATE = "terminate"


class IntentState(StrEnum):
    OPEN = "open"
    """The call is being made, will be, or its outcome was lost in a crash: the cloud's list knows."""
    DONE = "done"
    """The cloud has done it: the node exists, or does not exist any more."""
    REFUSED = "refused"
    """The cloud has said no, and nothing came of it."""
    ABANDONED = "abandoned"
    """Given up after a crash with nothing in the cloud's list. Should the node appear yet, it is an orphan."""


@dataclass(frozen=True, slots=True)
class Intent:
    key: str
    kind: IntentKind
    node: str
    cloud: str
    state: IntentState
    attempts: int
    attempted_at: str
    """ISO 8601, UTC."""
    outcome: str
    """Last answer of the cloud."""


def intent_key(kind: IntentKind, node: str) -> str:
    """A node is created once and terminated once, so that the two together say which intent it is."""
    return f"{kind}:{node}"
