"""Time of one decision of the gateway under `slack-v1`: which of the requests that wait goes to whom.

    python -m bench.dispatch_decision [--instances 100] [--waiting 500]

Compiled decisions over the gateway's own arrays, as its event loop calls them: prefill instances of four speeds before
as many decode instances, in four zones with flows of a plan. Exits with 1 where the median of any case is above 20 µs.
"""

import argparse
import statistics
import sys
import time
from dataclasses import replace
from math import inf
from typing import Any

from bench.text_tables import DECODE, PREFILL, member, text_model
from control.gateway.slack_decision import bind, join
from control.gateway.slack_rows import MemberState, blank_rows, slack_rows
from policies.queue_parts import Waiting
from policies.routing_table import PromptTimes, RoutedModel, ZoneFlow
from policies.slack import PROMPT_POINTS

BAR_US = 20.0
TURNS = 2000
ZONES = ("a", "b", "c", "d")


def routed(instances: int) -> RoutedModel:
    """As many prefill instances, of four speeds, and decode instances."""
    prefill = []
    for number in range(instances):
        seconds = tuple((0.01 + PROMPT_POINTS * 1e-4 * (1 + number % 4)).tolist())
        own = member("m", f"p{number}", ZONES[number // 4 % 4], PREFILL)
        prefill.append(replace(own, times=PromptTimes(seconds, seconds, 2048), usd_per_hour=4.0 / (1 + number % 4)))
    decode = [member("m", f"d{number}", ZONES[number % 4], DECODE) for number in range(instances)]
    flows = [ZoneFlow((start, end), 1.0) for start in ZONES for end in ZONES]
    return replace(text_model("m", [*prefill, *decode], flows), policy="slack-v1")


def seconds_of(model: RoutedModel, waiting: int, free: int, tokens: float) -> list[float]:
    """Time of decisions with `free` prefill instances that have a place, while requests of `tokens` wait."""
    w, count = slack_rows(model)._replace(waiting=blank_rows(Waiting, waiting)), len(model.members) // 2
    states: Any = w.states
    for number in range(len(model.members)):
        has_place = number >= count or (number + 1) % (count // free) == 0  # the last, a slow one, always
        states[number] = MemberState(True, has_place, has_place, number % 7, 1000, 1.0, 5.0 + number % 3, inf)
    for row in range(waiting):
        join(w, row, 0, tokens, 256.0, 0.0, 1.0 + row * 1e-6, 0.0, False)
    found = []
    for _ in range(TURNS):
        start_s = time.perf_counter()
        row, _, _ = bind(w, 0.0, True)
        found.append(time.perf_counter() - start_s)
        if row >= 0:
            join(w, row, 0, tokens, 256.0, 0.0, 1.0 + row * 1e-6, 0.0, False)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", type=int, default=100)
    parser.add_argument("--waiting", type=int, default=500)
    given = parser.parse_args()
    model, worst_us = routed(given.instances), -inf
    cases = {"one has a place": (1, 200.0), "a tenth have": (10, 200.0), "all have": (given.instances, 200.0)}
    for name, (free, tokens) in {**cases, "one has, too slow for all": (1, 3000.0)}.items():
        found = sorted(seconds_of(model, given.waiting, free, tokens))
        median_us, high_us = statistics.median(found) * 1e6, found[len(found) * 99 // 100] * 1e6
        print(f"{given.instances} prefill instances, {name:26} median {median_us:5.1f} µs, p99 {high_us:5.1f} µs")
        worst_us = max(worst_us, median_us)
    print(f"bar {BAR_US:.0f} µs {'met' if worst_us <= BAR_US else 'MISSED'}")
    return int(worst_us > BAR_US)


if __name__ == "__main__":
    sys.exit(main())
