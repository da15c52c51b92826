"""Moves of a step, equal ones together: what people read of a diff of hundreds of instances."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from control.diff.moves import Launch, MoveSet
from control.diff.running import Running
from control.diff.target import Column


class MoveKind(StrEnum):
    LAUNCH = "launch"
    DRAIN = "drain"
    RELEASE = "release"


@dataclass(frozen=True, slots=True)
class MoveGroup:
    """Instances of one template in one place to which the same is done for the same reason."""

    kind: MoveKind
    count: int
    template: str
    zone: str
    market: str
    nodes: Mapping[str, int]
    """Nodes of one instance: node configuration → how many."""
    work: tuple[str, ...]
    """Work classes that it serves."""
    usd_per_hour: float
    """Dollars an hour that all of them add or, below zero, end."""
    requests: int
    """Requests under way or waiting on them now."""
    reason: str


@dataclass(frozen=True, slots=True)
class _Move:
    kind: MoveKind
    column: Column
    nodes: Mapping[str, int]
    units_per_s: Mapping[str, float]
    usd_per_hour: float
    requests: int
    reason: str


def move_groups(moves: MoveSet, running: Mapping[str, Running]) -> tuple[MoveGroup, ...]:
    """Launches, drains and releases, those that move most dollars first. `running`: by id, all of which something goes;
    what an earlier step launched goes in none."""
    groups: dict[tuple[MoveKind, Column, str], list[_Move]] = {}
    for move in _moves(moves, running):
        groups.setdefault((move.kind, move.column, move.reason), []).append(move)
    found = [_group(equal) for equal in groups.values()]
    order = list(MoveKind)
    return tuple(sorted(found, key=lambda g: (order.index(g.kind), -abs(g.usd_per_hour), g.template, g.zone, g.market)))


def _moves(moves: MoveSet, running: Mapping[str, Running]) -> Iterator[_Move]:
    for launch in moves.launch:
        yield _launch(launch)
    for drain in moves.drain:
        yield _going(MoveKind.DRAIN, running[drain.instance_id], drain.usd_per_hour, drain.requests, drain.reason)
    for release in moves.release:
        yield _going(MoveKind.RELEASE, running[release.instance_id], release.usd_per_hour, 0, release.reason)


def _launch(launch: Launch) -> _Move:
    target = launch.target
    return _Move(
        MoveKind.LAUNCH, target.column, target.nodes, target.units_per_s, launch.usd_per_hour, 0, launch.reason
    )


def _going(kind: MoveKind, each: Running, usd_per_hour: float, requests: int, reason: str) -> _Move:
    return _Move(kind, each.column, each.nodes, each.units_per_s, -usd_per_hour, requests, reason)


def _group(equal: list[_Move]) -> MoveGroup:
    first = equal[0]
    template, zone, market = first.column
    return MoveGroup(
        kind=first.kind,
        count=len(equal),
        template=template,
        zone=zone,
        market=market,
        nodes=first.nodes,
        work=tuple(sorted(first.units_per_s)),
        usd_per_hour=sum(each.usd_per_hour for each in equal),
        requests=sum(each.requests for each in equal),
        reason=first.reason,
    )
