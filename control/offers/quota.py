"""Quotas of an account: what clouds let it run, whatever they have and whatever it pays."""

from dataclasses import dataclass

from templates_lib.values.supply import SupplyPool


@dataclass(frozen=True, slots=True)
class Quota:
    pool: SupplyPool
    """Limit, and what one node of each offer takes of it."""
    used: float | None
    """Units of it that the account has in use now, nodes of ours included; None: the cloud does not let us know."""
    ask_at: str
    """Address of the page where more is asked for."""


@dataclass(frozen=True, slots=True)
class QuotaAnswer:
    quotas: tuple[Quota, ...]
    notes: tuple[str, ...] = ()
    """Parts that could not be read, and why."""
