"""Request traces as a simulation needs them: read strictly, cut, scaled and repeated."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from control.fleet_file.problem import SpecError, SpecProblem
from control.simulator.serving.requests import ANY_LENGTH
from policies.priority import Priority
from templates_lib.load.traces import BadRow, iterate_requests

MAX_REQUESTS = 10_000_000
"""Most requests of a simulation: more would not fit a laptop's memory with their results."""
_MOST_PROBLEMS = 10


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """Requests of one model in order of arrival."""

    arrival_s: NDArray[np.float64]
    """(n,)"""
    prompt_tokens: NDArray[np.int32]
    output_tokens: NDArray[np.int32]
    period_s: float
    """How long it speaks for: from 0 to where the next request would be."""
    priority: Priority = Priority.STANDARD
    most_tokens: int = ANY_LENGTH
    """What their clients allow an answer."""

    def scaled(self, factor: float) -> "Stream":
        """All gaps divided by `factor`: that many times the rate (Coral, section 6.1: uniform scaling)."""
        return replace(self, arrival_s=self.arrival_s / factor, period_s=self.period_s / factor)

    def cut(self, from_s: float, length_s: float) -> "Stream":
        """What arrives in a time of that length, from second 0 on; after its period it begins again."""
        rounds = np.arange(np.floor(from_s / self.period_s), np.ceil((from_s + length_s) / self.period_s))
        if len(rounds) * len(self.arrival_s) > MAX_REQUESTS:
            raise ValueError(f"more than {MAX_REQUESTS:,} requests: shorten the scenario or scale the traffic down")
        arrival_s = (rounds[:, None] * self.period_s + self.arrival_s[None, :]).ravel() - from_s
        inside = (arrival_s >= 0) & (arrival_s < length_s)
        prompt, output = (np.tile(a, len(rounds))[inside] for a in (self.prompt_tokens, self.output_tokens))
        return Stream(arrival_s[inside], prompt, output, length_s)

    def bounded(self, most_tokens: int) -> "Stream":
        """The same of clients that allow an answer so many tokens: longer ones end there."""
        return replace(self, output_tokens=np.minimum(self.output_tokens, most_tokens), most_tokens=most_tokens)


def read_stream(path: Path) -> Stream:
    """A trace file of any known format with arrival times. Its first request arrives at 0.

    Raises SpecError with file and line for timestamps that are negative or out of order and for lengths below 1,
    TraceError for a file that is no trace.
    """
    times: list[float] = []
    lengths: list[tuple[int, int]] = []
    problems: list[SpecProblem] = []
    for line, item in iterate_requests(path):
        wrong = item.problem if isinstance(item, BadRow) else _misplaced(item.arrival_s, times)
        if wrong:
            problems.append(SpecProblem(str(path), line, wrong))
            if len(problems) == _MOST_PROBLEMS:
                break
            continue
        assert not isinstance(item, BadRow)  # noqa: S101 - it would be wrong
        if len(times) == MAX_REQUESTS:
            raise SpecError([SpecProblem(str(path), line, f"more than {MAX_REQUESTS:,} requests: cut the file")])
        times.append(item.arrival_s)
        lengths.append((item.prompt_tokens, item.output_tokens))
    if problems:
        raise SpecError(problems)
    return _stream(path, np.array(times), np.array(lengths, np.int32).reshape(-1, 2))


def _misplaced(arrival_s: float, before: list[float]) -> str:
    if arrival_s < 0:
        return f"arrives at {arrival_s:g} s, before the trace begins: times count from its start, so none is below 0"
    if before and arrival_s < before[-1]:
        ahead = before[-1] - arrival_s
        return (
            f"arrives {ahead:g} s before the request ahead of it: sort the file by arrival (whoever wrote it may "
            "have merged two traces: then give each as a stream of its own)"
        )
    return ""


def _stream(path: Path, times: NDArray[np.float64], lengths: NDArray[np.int32]) -> Stream:
    if len(times) < 2 or times[-1] <= times[0]:
        raise SpecError(
            [
                SpecProblem(
                    str(path),
                    0,
                    f"has {len(times)} requests and no two arrival times: it is a shape of lengths; give it as "
                    "`workload` of synthetic arrivals",
                )
            ]
        )
    arrival_s = times - times[0]
    period_s = float(arrival_s[-1]) * len(times) / (len(times) - 1)  # a mean gap after the last one
    return Stream(arrival_s, lengths[:, 0].copy(), lengths[:, 1].copy(), period_s)
