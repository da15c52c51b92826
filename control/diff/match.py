"""The match of a plan with what runs: instances to keep, unwanted ones, and missing ones."""

from collections.abc import Sequence
from dataclasses import dataclass

from control.diff.running import Running
from control.diff.target import Column, Target
from control.lifecycle.state import InstanceState


@dataclass(frozen=True, slots=True)
class Missing:
    target: Target
    count: int
    there: int
    """Instances of the column that stay."""
    failed: int
    """Instances of it that have failed and are still on record."""


@dataclass(frozen=True, slots=True)
class Match:
    kept: tuple[Running, ...]
    unwanted: tuple[Running, ...]
    """The first to go first: what has not come far, then the least loaded, then the dearest."""
    leaving: tuple[Running, ...]
    missing: tuple[Missing, ...]


def match(wanted: Sequence[Target], running: Sequence[Running]) -> Match:
    """Match instances with targets. Of equal instances those stay that have come furthest, then the most loaded, then
    the oldest. What is half made of an earlier plan counts where the new one wants the same."""
    staying: dict[Column, list[Running]] = {}
    failed: dict[Column, int] = {}
    leaving: list[Running] = []
    for each in running:
        if each.is_leaving:
            leaving.append(each)
            if each.instance.state == InstanceState.FAILED:
                failed[each.column] = failed.get(each.column, 0) + 1
        else:
            staying.setdefault(each.column, []).append(each)
    kept: list[Running] = []
    unwanted: list[Running] = []
    missing: list[Missing] = []
    for target in wanted:
        there = sorted(staying.pop(target.column, ()), key=_worth)
        kept += there[: target.count]
        unwanted += there[target.count :]
        if len(there) < target.count:
            lacks = target.count - len(there)
            missing.append(Missing(target, lacks, len(there), failed.get(target.column, 0)))
    for others in staying.values():
        unwanted += others
    # What is least along goes first, then what computes least, then the dearest; ids so that ties fall alike.
    unwanted.sort(key=lambda r: (r.progress, r.requests, -r.usd_per_hour, r.id))
    return Match(tuple(kept), tuple(unwanted), tuple(leaving), tuple(missing))


def _worth(each: Running) -> tuple[int, int, str, str]:
    return -each.progress, -each.requests, each.instance.state_since, each.id
