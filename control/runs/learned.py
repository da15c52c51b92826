"""What is to be expected of a run, by runs of its workflow that are done."""

from collections.abc import Sequence
from dataclasses import dataclass

from medley_sdk.flows.messages import CallKind, FlowCall
from policies.workflows.call_table import END, CallTable, last_service
from policies.workflows.expected_visits import expected_visits

MOST_RUNS = 500
"""Runs that it goes by, those that ended last."""
MOST_CALLS = 1000
"""Of each of them, its first."""


@dataclass(frozen=True, slots=True)
class Learned:
    runs: int
    calls_per_run: dict[str, float]
    """Of each model and service."""
    follows: dict[str, dict[str, float]]
    """Model or service → how often each is called next; the empty name is the beginning, and the end."""


def learned(runs: Sequence[Sequence[FlowCall]]) -> Learned:
    """Go by calls of models and services, in the order in which they were made."""
    work = (CallKind.MODEL, CallKind.SERVICE)
    made = [[call.target for call in calls if call.kind in work] for calls in runs]
    table = CallTable(last_service)
    for each in made:
        table.learn(each)
    names = sorted({END, *(name for each in made for name in each)})
    follows = {name: dict(table.following([name] if name else [])) for name in names}
    return Learned(len(made), dict(expected_visits(made)), {name: each for name, each in follows.items() if each})
