"""Which objectives a simulated plan keeps, by work class, and why it misses the others."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from control.simulator.report.fate import judge
from control.simulator.serving.fleet_timeline import FleetTimeline
from control.simulator.serving.requests import Requests
from control.simulator.serving.served import Served
from control.simulator.serving.simulate import simulate
from templates_lib.values.slo import Slo

Floats = NDArray[np.float64]
Some = NDArray[np.bool_]

MOST_ALONE = 500
"""Late requests that are simulated once more, each alone."""
ALONE_S = 60.0
"""Between two of those."""


class Cause(StrEnum):
    LENGTH = "length"
    """It would be late alone on the idle fleet: longer than what was certified, or too few gaps for one hand-off."""
    QUEUE = "queue"
    """In time but for its wait for a first step, or for room for its KV cache at the decode instance."""
    HAND_OFF = "hand-off"
    """In time but for its KV cache's way to the decode instance."""
    DISPATCH = "dispatch"
    """Its steps themselves were late: shared with others, or behind them from stage to stage."""


@dataclass(frozen=True, slots=True)
class Kept:
    """One work class of one plan."""

    requests: int
    attainment: float
    """Share of them within the objective: time to first token for prefill, mean gap between tokens for decode."""
    p99_ms: float
    objective_ms: float
    causes: Mapping[Cause, float]
    """Shares of all requests that were late for that cause."""

    @property
    def cause(self) -> Cause:
        return max(self.causes, key=lambda cause: self.causes[cause])


def kept(
    requests: Requests, fleet: FleetTimeline, slos: Mapping[str, Slo], from_s: float, until_s: float
) -> dict[str, Kept]:
    """Work class id → how it fared, of requests that arrived in the span; classes without requests are left out."""
    served = simulate(requests, fleet)
    counted = (requests.arrival_s >= from_s) & (requests.arrival_s < until_s)
    judged = judge(requests, served, slos, fleet.length_s)
    limit_s = np.array([slos[app].ttft_ms for app in requests.apps])[requests.app] / 1000
    limit_s += np.array([slos[a].ttft_ms_per_1k_prompt_tokens for a in requests.apps])[requests.app] * (
        requests.prompt_tokens / 1e6
    )
    gap_s = np.array([slos[app].tpot_ms for app in requests.apps])[requests.app] / 1000
    ttft_s, tpot_s = judged.ttft_ms / 1000, judged.tpot_ms / 1000
    late = counted & ~(ttft_s <= limit_s)
    slow = counted & (requests.output_tokens > 1) & ~(tpot_s <= gap_s)
    alone = _alone(requests, fleet, np.flatnonzero(late | slow))
    found: dict[str, Kept] = {}
    for number, app in enumerate(requests.apps):
        own = counted & (requests.app == number)
        if not own.any():
            continue
        for phase, missed, value_s, objective_s, causes in (
            ("prefill", late & own, ttft_s[own], limit_s[own], _causes_of_late),
            ("decode", slow & own, tpot_s[own], gap_s[own], _causes_of_slow),
        ):
            total = int(own.sum())
            counts = causes(requests, served, alone, missed, objective_s[0])
            found[f"{app}/{phase}"] = Kept(
                total,
                1 - int(missed.sum()) / total,
                1000 * float(np.nanpercentile(value_s, 99)) if np.isfinite(value_s).any() else float("inf"),
                1000 * float(objective_s[0]),
                {cause: counts[cause] / total for cause in Cause},
            )
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Alone:
    """Late requests once more, on the idle fleet. Arrays over all requests, NaN for those that were not tried."""

    ttft_s: Floats
    gap_s: Floats
    """Mean gap."""
    gap_but_hand_off_s: Floats


def _alone(requests: Requests, fleet: FleetTimeline, late: NDArray[np.int64]) -> _Alone:
    tried = late if len(late) <= MOST_ALONE else late[:: -(-len(late) // MOST_ALONE)]
    arrival_s = np.arange(len(tried)) * ALONE_S
    few = Requests(
        requests.apps, requests.app[tried], arrival_s, requests.prompt_tokens[tried], requests.output_tokens[tried]
    )
    length_s = len(tried) * ALONE_S + 600
    idle = FleetTimeline(fleet.instances, fleet.tables, length_s, fleet.mean_output_tokens)
    served = simulate(few, idle)
    gaps = np.maximum(few.output_tokens - 1, 1)
    moved_s = np.nan_to_num(served.handed_s - served.first_token_s)
    values = {
        "ttft_s": served.first_token_s - arrival_s,
        "gap_s": (served.finish_s - served.first_token_s) / gaps,
        "gap_but_hand_off_s": (served.finish_s - served.first_token_s - moved_s) / gaps,
    }
    spread = {}
    for name, value in values.items():
        spread[name] = np.full(len(requests), np.nan)
        spread[name][tried] = value
    return _Alone(**spread)


def _causes_of_late(requests: Requests, served: Served, alone: _Alone, late: Some, limit_s: float) -> Counter[Cause]:
    ttft_s = served.first_token_s - requests.arrival_s
    by_itself = alone.ttft_s > limit_s
    waited = ~(ttft_s - served.queued_s > limit_s)  # who never had a first token waited too
    return _counts(late, np.isfinite(alone.ttft_s), {Cause.LENGTH: by_itself, Cause.QUEUE: waited}, Cause.DISPATCH)


def _causes_of_slow(requests: Requests, served: Served, alone: _Alone, slow: Some, limit_s: float) -> Counter[Cause]:
    gaps = np.maximum(requests.output_tokens - 1, 1)
    took_s = served.finish_s - served.first_token_s
    room_s = np.maximum(np.nan_to_num(served.accepted_s - served.first_token_s), 0.0)
    moved_s = np.nan_to_num(served.handed_s - np.maximum(served.accepted_s, served.first_token_s))
    tests = {
        Cause.LENGTH: alone.gap_but_hand_off_s > limit_s,
        Cause.HAND_OFF: alone.gap_s > limit_s,
        Cause.QUEUE: ~((took_s - room_s) / gaps > limit_s),
        Cause.DISPATCH: (took_s - room_s - moved_s) / gaps > limit_s,
    }
    return _counts(slow, np.isfinite(alone.ttft_s), tests, Cause.HAND_OFF)


def _counts(missed: Some, known: Some, tests: Mapping[Cause, Some], otherwise: Cause) -> Counter[Cause]:
    """The first test that is true names the cause; of requests tried alone, scaled to all that were missed."""
    left = missed & known
    scale = int(missed.sum()) / max(int(left.sum()), 1)
    counts: Counter[Cause] = Counter()
    for cause, holds in tests.items():
        counts[cause] += int((left & holds).sum())
        left = left & ~holds
    counts[otherwise] += int(left.sum())
    return Counter({cause: round(n * scale) for cause, n in counts.items()})
