"""Medley against every baseline in the Coral paper's set-ups (sections 6.3-6.5).

    python -m bench.savings [--setup core|extended|all] [--markdown]

Each method sees the same snapshot, templates' profiles, prices and utilisation cap. A method that cannot serve the
whole demand is scaled down uniformly to what it can serve (section 6.4); its cost and goodput are printed at that
share. Exits 1 when a plan fails the independent check or a baseline is cheaper than Medley at the whole demand.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bench.scenarios import SetUp, scarce, set_up
from control.checker import check
from control.planner import solve
from control.planning.session import BASELINES
from policies.scale_down import scale_to_feasible
from templates_lib.plan import Plan
from templates_lib.snapshot import Snapshot

METHODS: dict[str, Callable[..., Plan]] = {"medley": lambda s, library, _: solve(s, library), **BASELINES}
CHEAPER_BY = 1e-3
"""What a baseline may seem cheaper by: the plan's own gap."""


@dataclass(frozen=True, slots=True)
class Row:
    scenario: str
    method: str
    share: float
    """Of the demand, at which the figures hold."""
    usd_per_hour: float
    goodput_tokens_per_s: float
    """Output tokens per second within the objectives, by the plan."""
    unmet_share: float
    """Of the requests, when the method plans for the whole demand."""
    gap: float
    seconds: float


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--setup", choices=["core", "extended", "all"], default="all")
    arguments.add_argument("--markdown", action="store_true")
    chosen = arguments.parse_args()
    wrong = 0
    for name in ("core", "extended") if chosen.setup == "all" else (chosen.setup,):
        with set_up(name) as made:
            for scenario, snapshot in _scenarios(made):
                rows = [_row(made, scenario, method, snapshot) for method in METHODS]
                _print(rows, markdown=chosen.markdown)
                wrong += _beaten(rows)
    return 1 if wrong else 0


def _scenarios(made: SetUp) -> Iterator[tuple[str, Snapshot]]:
    for kind, snapshot in made.demands().items():
        yield f"{made.name} {kind}", snapshot
    yield f"{made.name} scarce", scarce(made.snapshot, made.name)


def _row(made: SetUp, scenario: str, method: str, snapshot: Snapshot) -> Row:
    library = made.templates.library

    def plan(view: Snapshot) -> Plan:
        found = METHODS[method](view, library, solve)
        violations = check(found, view)
        if violations:
            raise SystemExit(f"{scenario}, {method}: {violations[0]}")
        return found

    start = time.perf_counter()
    whole = plan(snapshot)
    seconds = time.perf_counter() - start
    feasible = scale_to_feasible(plan, snapshot) if whole.unmet else None
    at = whole if feasible is None else feasible.plan
    total = sum(d.requests_per_s for d in snapshot.demand)
    return Row(
        scenario,
        method,
        share=1.0 if feasible is None else feasible.share,
        usd_per_hour=at.usd_per_hour + at.init_usd if at else 0.0,
        goodput_tokens_per_s=_goodput(snapshot) * (1.0 if feasible is None else feasible.share),
        unmet_share=sum(whole.unmet.values()) / total,
        gap=whole.gap,
        seconds=seconds,
    )


def _goodput(snapshot: Snapshot) -> float:
    """Output tokens per second of the whole demand: the last leg's units."""
    routes = {(r.app, r.request_type): r for r in reversed(snapshot.routes)}
    return sum(d.requests_per_s * routes[d.app, d.request_type].legs[-1].units_per_request for d in snapshot.demand)


def _print(rows: list[Row], *, markdown: bool) -> None:
    own = rows[0]
    for row in rows:
        per_goodput = (row.usd_per_hour / max(row.goodput_tokens_per_s, 1e-9)) / (
            own.usd_per_hour / own.goodput_tokens_per_s
        )
        cells = [
            row.scenario,
            row.method,
            f"{row.usd_per_hour:.2f}",
            f"{row.share:.2f}",
            f"{row.goodput_tokens_per_s:,.0f}",
            f"{per_goodput:.2f}" if row.share else "-",
            f"{100 * row.unmet_share:.1f} %",
            f"{100 * row.gap:.2f} %" if row.gap < 1 else "-",
            f"{row.seconds:.1f}",
        ]
        if markdown:
            print("| " + " | ".join(cells) + " |", flush=True)
        else:
            print("  ".join(f"{c:>12}" for c in cells), flush=True)


def _beaten(rows: list[Row]) -> bool:
    own = rows[0]
    return any(r.share >= own.share and r.usd_per_hour < own.usd_per_hour * (1 - CHEAPER_BY) for r in rows[1:])


if __name__ == "__main__":
    sys.exit(main())
