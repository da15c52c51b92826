"""The difference between what runs and what is wanted: the next safe moves, and the whole way there. Pure: values in,
values out."""

from control.diff.describe import describe
from control.diff.fleet_diff import FleetDiff, fleet_diff
from control.diff.limits import ChangeLimits, Disruption, Past
from control.diff.moves import Drain, Launch, MoveSet, Release, Wait, WaitKind
from control.diff.next_moves import next_moves
from control.diff.running import Running
from control.diff.spending import Spending, SpendingRefusal, refusal, spending_of
from control.diff.supply import Supply, supply_of
from control.diff.target import Column, Target, targets
from control.diff.transition import FleetTransition, plan_transition

__all__ = [
    "ChangeLimits",
    "Column",
    "Disruption",
    "Drain",
    "FleetDiff",
    "FleetTransition",
    "Launch",
    "MoveSet",
    "Past",
    "Release",
    "Running",
    "Spending",
    "SpendingRefusal",
    "Supply",
    "Target",
    "Wait",
    "WaitKind",
    "describe",
    "fleet_diff",
    "next_moves",
    "plan_transition",
    "refusal",
    "spending_of",
    "supply_of",
    "targets",
]
