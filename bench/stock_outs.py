"""What it brings to remember refusals, on logs of when spot machines could be had.

    python -m bench.stock_outs [--availability ../shared/data/availability]

Somebody wants one node in every zone of every log (SkyPilot's traces of V100 and K80 at AWS, 2022 and 2023), holds it
for as long as the log says that there is one, and looks every ten seconds. Each look asks, if the policy lets it:
Medley's cool-downs (`policies/availability.py`), against asking at every look, and against waiting 660 s after each
refusal (no multiple of the logs' own steps, in time with which one would see every change at once). *missed*: share of
the time in which there was a node that nobody held, because nobody had asked yet. Exits with 1 when Medley asks more
than once a minute or more often than a twentieth of whoever always asks, or misses more than 2 % of the time.
"""

import argparse
import csv
import gzip
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from policies.availability import CallOutcome, Learned, is_excluded, learn

LOOK_S = 10.0
WAIT_S = 660.0
BAR_CALLS, BAR_MISSED = 1 / 20, 0.02
START = datetime(2023, 1, 1, tzinfo=UTC)
FILE = "spot_traces_rle.csv.gz"

Spans = list[tuple[float, float, bool]]
"""(from, to, whether there is a node), seconds."""


class Always:
    """Asks at every look."""

    def may(self, _: float) -> bool:
        return True

    def heard(self, _: CallOutcome, at_s: float) -> None: ...


class Constant(Always):
    def __init__(self) -> None:
        self._refused_s = -WAIT_S

    def may(self, at_s: float) -> bool:
        return at_s - self._refused_s >= WAIT_S

    def heard(self, outcome: CallOutcome, at_s: float) -> None:
        if outcome is CallOutcome.STOCK_OUT:
            self._refused_s = at_s


class Medley(Always):
    def __init__(self) -> None:
        self._known: Learned | None = None

    def may(self, at_s: float) -> bool:
        return self._known is None or not is_excluded(self._known, START + timedelta(seconds=at_s))

    def heard(self, outcome: CallOutcome, at_s: float) -> None:
        self._known = learn(self._known, outcome, "", START + timedelta(seconds=at_s))


@dataclass
class Score:
    calls: int = 0
    most_in_a_minute: int = 0
    there_s: float = 0.0
    held_s: float = 0.0
    hours: float = 0.0


def run(spans: Spans, policy: Always, score: Score) -> None:
    """One node wanted from the beginning of a log to its end."""
    minutes: dict[int, int] = {}
    holds = False
    for begin, end, there in spans:
        score.hours += (end - begin) / 3600
        score.there_s += (end - begin) * there
        if holds and not there:
            holds = False
            policy.heard(CallOutcome.TAKEN, begin)
        at_s = begin
        while at_s < end and not holds:
            if policy.may(at_s):
                score.calls += 1
                minutes[int(at_s // 60)] = minutes.get(int(at_s // 60), 0) + 1
                policy.heard(CallOutcome.GRANTED if there else CallOutcome.STOCK_OUT, at_s)
                holds = there
            if not holds:
                at_s += LOOK_S
        score.held_s += max(0.0, end - at_s) * holds
    score.most_in_a_minute = max([score.most_in_a_minute, *minutes.values()])


def logs(folder: Path) -> Iterator[Spans]:
    """One a zone and start, of logs of single nodes."""
    with gzip.open(folder / FILE, "rt", encoding="utf-8", newline="") as file:
        found: dict[tuple[str, ...], Spans] = {}
        for row in csv.DictReader(file):
            if row["kind"] != "availability" or row["nodes"] != "1":
                continue
            name = tuple(row[c] for c in ("start_date", "zone", "resource", "count_per_node", "gap_seconds"))
            begin = float(row["start_s"])
            end = begin + int(row["ticks"]) * float(row["gap_seconds"])
            found.setdefault(name, []).append((begin, end, row["available_nodes"] != "0"))
    yield from found.values()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(__file__).parents[2] / "shared" / "data" / "availability"
    parser.add_argument("--availability", type=Path, default=default)
    folder: Path = parser.parse_args().availability
    if not (folder / FILE).exists():
        print(f"{folder / FILE} is not there: name the folder with --availability", file=sys.stderr)
        return 1
    every = list(logs(folder))
    policies: dict[str, Callable[[], Always]] = {
        "always": Always,
        "every 660 s": Constant,
        "Medley": Medley,
    }
    scores = {name: Score() for name in policies}
    for name, make in policies.items():
        for spans in every:
            run(spans, make(), scores[name])
    print(f"{len(every)} logs, {scores['always'].hours:,.0f} h, there for {_there(scores['always']):.0%} of the time")
    print(f"{'policy':<14}{'calls/h':>9}{'most/min':>10}{'missed':>9}")
    for name, score in scores.items():
        calls = score.calls / score.hours
        print(f"{name:<14}{calls:>9.2f}{score.most_in_a_minute:>10}{_missed(score):>9.2%}")
    own, always = scores["Medley"], scores["always"]
    met = own.calls <= BAR_CALLS * always.calls and own.most_in_a_minute <= 1 and _missed(own) <= BAR_MISSED
    print("met" if met else "missed")
    return 0 if met else 1


def _there(score: Score) -> float:
    return score.there_s / 3600 / score.hours


def _missed(score: Score) -> float:
    return 1 - score.held_s / score.there_s


if __name__ == "__main__":
    sys.exit(main())
