"""The estimator of a unit's throughput beside what the authors of MuxServe measured."""

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

from bench.units.measured import TIMES, MeasuredModel, kv_bytes, measured_units, unit_members
from bench.units.profile import Floats
from templates_lib.units.estimator import MemberEstimate, UnitEstimate, contended, in_turn, printed
from templates_lib.units.member import UnitMember

DRAIN_TOKENS = 600.0
"""Tokens that requests go on decoding after the last has come. Runs last 22 to 86 s, so that this is much of them. The
only number that was chosen for these rows."""
BARS = {"flexsm": 0.20, "spatial": 0.15}
"""System → median error that is allowed."""
Estimator = Callable[[Sequence[UnitMember], float], UnitEstimate | None]
ESTIMATORS: dict[str, Estimator] = {"printed": printed, "contended": contended, "in turn": in_turn}


def run() -> bool:
    """Print errors of both estimators, by times of the profile and of the estimate, with and without the drain. Tells
    whether `printed` meets the bars by those of the profile, which it was made for."""
    met = True
    print(
        f"{'system':9} {'estimator':10} {'times':10} {'rows':>5} {'median error':>13} {'bias':>6} {'no drain':>9}  bar"
    )
    rows = [*product(BARS, ["printed", "contended"], TIMES), *product(["temporal"], ["in turn"], TIMES)]
    for system, name, times in rows:
        error, plain = (errors(system, name, times, drain) for drain in (DRAIN_TOKENS, 0.0))
        median, bar = float(np.median(np.abs(error))), BARS[system] if (name, times) == ("printed", "profile") else None
        met = met and (bar is None or median <= bar)
        print(f"{system:9} {name:10} {times:10} {len(error):5} {median:13.1%} {np.median(error):6.1%} "
              f"{np.median(np.abs(plain)):9.1%} {'' if bar is None else f'{bar:.0%}':>4}")  # fmt: skip
    return met


def errors(system: str, name: str, times: str, drain_tokens: float) -> Floats:
    """Predicted / measured - 1 of each model of each run; a unit whose cache holds nothing serves nothing."""
    found = []
    for unit in measured_units(system):
        estimate = ESTIMATORS[name](unit_members(unit, times), kv_bytes(unit))
        for i, model in enumerate(unit.models):
            done = 0.0 if estimate is None else _over_a_run(model, estimate.members[i], drain_tokens)
            found.append(done / model.done_per_s - 1)
    return np.array(found)


def _over_a_run(model: MeasuredModel, estimate: MemberEstimate, drain_tokens: float) -> float:
    """Requests/s from the first arrival to the end of the last request."""
    busy_s = model.requests / min(model.requests_per_s, estimate.requests_per_s)
    return model.requests / (busy_s + drain_tokens * estimate.decode_s)
