"""From what runs to what is wanted: the next safe moves, and the whole way there. Pure: values in, values out."""

from control.diff.limits import Disruption, Limits, Past
from control.diff.moves import Drain, Launch, Moves, Release, Wait, WaitKind
from control.diff.next_moves import next_moves
from control.diff.running import Running
from control.diff.spending import Refusal, Spending, refusal, spending_of
from control.diff.supply import Supply, supply_of
from control.diff.target import Column, Target, targets

__all__ = [
    "Column",
    "Disruption",
    "Drain",
    "Launch",
    "Limits",
    "Moves",
    "Past",
    "Refusal",
    "Release",
    "Running",
    "Spending",
    "Supply",
    "Target",
    "Wait",
    "WaitKind",
    "next_moves",
    "refusal",
    "spending_of",
    "supply_of",
    "targets",
]
