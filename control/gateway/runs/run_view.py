"""A run as the control plane's API says it is (`control.api.routes.client_runs`)."""

from msgspec import Raw, Struct


class EmittedValue(Struct, frozen=True):
    seq: int
    value: Raw


class RunView(Struct, frozen=True):
    """Values of the run's code are handed on as they are."""

    id: str
    workflow: str
    state: str
    reason: str
    usd: float
    created_at: str
    ended_at: str | None
    answer: Raw
    emitted: tuple[EmittedValue, ...]
    has_more: bool
