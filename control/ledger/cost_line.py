"""Charges added up by what somebody asks for."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from control.ledger.charge import Charge
from control.ledger.money import cents_of_parts, dollars

LEAKED = "(leaked)"
"""The name of what belongs to no instance, model, fleet or project."""


class By(StrEnum):
    MODEL = "model"
    INSTANCE = "instance"
    FLEET = "fleet"
    PROJECT = "project"
    CLOUD = "cloud"
    MARKET = "market"


@dataclass(frozen=True, slots=True)
class CostLine:
    name: str
    usd: float
    """Whole cents; the lines of a report add up to its total."""
    usd_per_hour: float
    nodes: int


def cost_lines(charges: Iterable[Charge], by: By) -> tuple[CostLine, ...]:
    """The dearest first, equal ones by name."""
    groups: dict[str, list[Charge]] = {}
    for charge in charges:
        groups.setdefault(_name(charge, by), []).append(charge)
    names = sorted(groups, key=lambda name: (-_sum(c.usd for c in groups[name]), name))
    whole_cents = cents_of_parts([_sum(c.usd for c in groups[name]) for name in names])
    return tuple(
        CostLine(
            name,
            dollars(spent),
            float(_sum(c.usd_per_hour for c in groups[name])),
            sum(c.nodes for c in groups[name]),
        )
        for name, spent in zip(names, whole_cents, strict=True)
    )


def _name(charge: Charge, by: By) -> str:
    names = {
        By.MODEL: charge.model,
        By.INSTANCE: charge.instance_id,
        By.FLEET: charge.fleet,
        By.PROJECT: charge.project,
        By.CLOUD: charge.cloud,
        By.MARKET: charge.market,
    }
    return names[by] if by is By.CLOUD or not charge.leaked else LEAKED


def _sum(parts: Iterable[Fraction]) -> Fraction:
    return sum(parts, Fraction(0))
