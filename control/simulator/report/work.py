"""When tokens were made, and which of them count."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from control.simulator.report.fate import Fate, Judged
from control.simulator.result import SimulationResult
from control.simulator.serving.served import Outcome

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """Arrays (n,), one entry a request."""

    begun: NDArray[np.bool_]
    """Whether it came to a first token."""
    good: NDArray[np.bool_]
    """Its tokens are goodput: it was served within its objectives."""
    begin_s: Floats
    """Start of the time over which its tokens were made, evenly; NaN where none were."""
    end_s: Floats
    output_tokens: Floats


def work_of(result: SimulationResult, judged: Judged) -> Work:
    served = result.served
    begun = ~np.isnan(served.first_token_s)
    # Of an answer that broke off the end is not known: what it had counts where it began.
    cut = np.where((served.outcome == Outcome.UNFINISHED), result.facts.length_s, served.first_token_s)
    end_s = np.where(np.isnan(served.finish_s), cut, served.finish_s)
    tokens = served.made_tokens.astype(np.float64)
    return Work(begun, judged.fate == Fate.WITHIN, served.first_token_s, end_s, tokens)
