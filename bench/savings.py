"""Medley against every baseline in the Coral paper's set-ups (sections 6.3-6.5).

    python -m bench.savings [--setup core|extended|all] [--markdown]

Each method sees the same snapshot, templates' profiles, prices and utilisation cap. A method that cannot serve the
whole demand is scaled down uniformly to what it can serve (section 6.4); its cost and goodput are printed at that
share. Exits 1 when a plan fails the independent check or a baseline is cheaper than Medley at the whole demand.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator
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
    usd_per_hour: float
    """Rent, traffic and amortised initialisation of the plan for the whole demand, with what it leaves unmet."""
    unmet_share: float
    """Of the requests, in that plan."""
    share: float
    """Of the demand that the method can serve uniformly, every model at the same share."""
    usd_per_hour_at_share: float
    goodput_at_share: float
    """Output tokens per second within the objectives, by the plan."""
    gap: float
    seconds: float

    @property
    def usd_per_million_tokens(self) -> float:
        return self.usd_per_hour_at_share / max(self.goodput_at_share, 1e-9) / 3600 * 1e6


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--setup", choices=["core", "extended", "all"], default="all")
    arguments.add_argument("--markdown", action="store_true", help="one line a scenario, as in the README")
    chosen = arguments.parse_args()
    wrong = 0
    if chosen.markdown:
        _print_line(("$/h", *METHODS, "saved", "against"))
        _print_line("---" for _ in range(len(METHODS) + 3))
    for name in ("core", "extended") if chosen.setup == "all" else (chosen.setup,):
        with set_up(name) as made:
            for scenario, snapshot in _scenarios(made):
                rows = [_row(made, scenario, method, snapshot) for method in METHODS]
                if chosen.markdown:
                    _print_line((scenario, *(_short(r) for r in rows), *_saving(rows)))
                else:
                    _print(rows)
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
    share = feasible.share if feasible else float(not whole.unmet)
    at = feasible.plan if feasible else whole
    total = sum(d.requests_per_s for d in snapshot.demand)
    return Row(
        scenario,
        method,
        usd_per_hour=whole.usd_per_hour + whole.init_usd,
        unmet_share=sum(whole.unmet.values()) / total,
        share=share,
        usd_per_hour_at_share=at.usd_per_hour + at.init_usd if at and share else 0.0,
        goodput_at_share=_goodput(snapshot) * share,
        gap=whole.gap,
        seconds=seconds,
    )


def _goodput(snapshot: Snapshot) -> float:
    """Output tokens per second of the whole demand: the last leg's units."""
    routes = {(r.app, r.request_type): r for r in reversed(snapshot.routes)}
    return sum(d.requests_per_s * routes[d.app, d.request_type].legs[-1].units_per_request for d in snapshot.demand)


COLUMNS = ("method", "$/h", "unmet", "gap", "s", "served", "$/h", "tokens/s", "$/M tokens")


def _print(rows: list[Row]) -> None:
    """The plan for the whole demand, then what the method serves uniformly."""
    saved, against = _saving(rows)
    print(f"{rows[0].scenario}: saves {saved} against {against}")
    for cells in (COLUMNS, *(_cells(row) for row in rows)):
        print("  ".join(f"{c:>10}" for c in cells), flush=True)
    print()


def _print_line(cells: Iterable[str]) -> None:
    print("| " + " | ".join(cells) + " |", flush=True)


def _cells(row: Row) -> tuple[str, ...]:
    served = row.share > 0
    return (
        row.method,
        f"{row.usd_per_hour:.2f}",
        f"{100 * row.unmet_share:.1f} %",
        f"{100 * row.gap:.2f} %" if row.gap < 1 else "",
        f"{row.seconds:.1f}",
        f"{100 * row.share:.0f} %",
        f"{row.usd_per_hour_at_share:.2f}" if served else "-",
        f"{row.goodput_at_share:,.0f}" if served else "0",
        f"{row.usd_per_million_tokens:.2f}" if served else "-",
    )


def _short(row: Row) -> str:
    return f"{row.usd_per_hour:.2f}" + (f", {100 * row.unmet_share:.0f} % unmet" if row.unmet_share else "")


def _saving(rows: list[Row]) -> tuple[str, str]:
    """Share saved, and the cheapest baseline that serves as much."""
    own, able = rows[0], [r for r in rows[1:] if r.share >= rows[0].share]
    if not able:
        return "", "none serves as much"
    cheapest = min(able, key=lambda r: r.usd_per_hour)
    return f"{100 * (1 - own.usd_per_hour / cheapest.usd_per_hour):.1f} %", cheapest.method


def _beaten(rows: list[Row]) -> bool:
    own = rows[0]
    return any(r.share >= own.share and r.usd_per_hour < own.usd_per_hour * (1 - CHEAPER_BY) for r in rows[1:])


if __name__ == "__main__":
    sys.exit(main())
