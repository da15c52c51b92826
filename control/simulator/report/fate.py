"""Fates of requests, as their clients would judge them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from control.simulator.serving.requests import Requests
from control.simulator.serving.served import Outcome, Served
from templates_lib.values.slo import Slo

Floats = NDArray[np.float64]


class Fate(IntEnum):
    WITHIN = 0
    """Served within its objectives."""
    LATE = 1
    """Its first token was late, or is by now."""
    SLOW = 2
    """Its tokens came slowly, though the first one came in time."""
    REFUSED = 3
    LOST = 4
    """The request was taken, and failed."""
    UNFINISHED = 5
    """The simulation ended before it did; it was in time until then."""
    REFUSED_LATE = 6
    """The request was taken, waited, and was refused as it could not be begun in time any more."""


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """Arrays (n,), one entry a request."""

    fate: NDArray[np.int8]
    ttft_ms: Floats
    """Time from its arrival to its first token; NaN where none came."""
    tpot_ms: Floats
    """Mean gap between its tokens; NaN for answers of one token, and where not all came."""


def judge(requests: Requests, served: Served, slos: Mapping[str, Slo], length_s: float) -> Judged:
    """Judge requests by the objectives of each app (`templates_lib.values.slo`). Raises KeyError for one without.

    Attainment counts each request as one: within both objectives or not (Coral, section 6.1, counts tokens of requests
    within them as goodput).
    """
    of_app = [slos[app] for app in requests.apps]

    def objective(name: str) -> Floats:
        return np.array([getattr(slo, name) for slo in of_app], np.float64)[requests.app]

    ttft_ms = 1000 * (served.first_token_s - requests.arrival_s)
    gaps = requests.output_tokens - 1
    took_ms = np.where((served.outcome == Outcome.SERVED), 1000 * (served.finish_s - served.first_token_s), np.nan)
    tpot_ms = np.divide(took_ms, gaps, out=np.full(len(requests), np.nan), where=gaps > 0)
    limit_ms = objective("ttft_ms") + objective("ttft_ms_per_1k_prompt_tokens") * requests.prompt_tokens / 1000
    waited_ms = np.where(np.isnan(ttft_ms), 1000 * (length_s - requests.arrival_s), ttft_ms)
    late, slow = waited_ms > limit_ms, tpot_ms > objective("tpot_ms")
    failed = [served.outcome == each for each in (Outcome.REFUSED, Outcome.REFUSED_LATE, Outcome.LOST)]
    fate = np.select(
        [*failed, late, slow, (served.outcome == Outcome.UNFINISHED)],
        [Fate.REFUSED, Fate.REFUSED_LATE, Fate.LOST, Fate.LATE, Fate.SLOW, Fate.UNFINISHED],
        Fate.WITHIN,
    )
    return Judged(fate.astype(np.int8), ttft_ms, tpot_ms)


def share_within(fate: NDArray[np.int8]) -> float:
    """Return the share of `WITHIN` among the requests whose fate is known; NaN for none."""
    known = int((fate != Fate.UNFINISHED).sum())
    return float((fate == Fate.WITHIN).sum()) / known if known else float("nan")


def first_answer(makes_text: Iterable[bool]) -> str:
    """Name what clients wait for: first tokens, or whole answers of apps that make no text."""
    found = set(makes_text)
    return " or ".join(words for is_text, words in ((True, "first token"), (False, "answer")) if is_text in found)
