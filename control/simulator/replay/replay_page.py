"""The page of a replay."""

from collections.abc import Callable

import numpy as np

from control.simulator.replay.comparison import Comparison, Figures
from control.simulator.replay.course import Course, Floats
from control.simulator.replay.replay import Replay
from control.simulator.report.chart import Chart, Kind, Line, largest
from control.simulator.report.charts import time_unit
from control.simulator.report.page import Page, Section, Table, Tile

HAPPENED, REPLAYED = "as it was", "replayed"


def replay_charts(replay: Replay) -> tuple[Chart, ...]:
    per, unit = time_unit(float(replay.happened.edges_s[-1]))
    hours = np.diff(replay.happened.edges_s) / 3600

    def beside(name: str, title: str, y_unit: str, of: Callable[[Course], Floats], note: str = "") -> Chart:
        both = ((HAPPENED, replay.happened), (REPLAYED, replay.replayed))
        lines = tuple(Line(label, of(course), course.edges_s / per) for label, course in both)
        return Chart(name, title, unit, y_unit, Kind.STEPS, lines, note)

    def fleet(name: str, title: str, course: Course) -> Chart:
        lines = [Line(shape, nodes, course.edges_s / per) for shape, nodes in course.nodes.items()]
        return Chart(name, title, unit, "nodes", Kind.STACK, largest(lines))

    return (
        beside("cost", "Cost of nodes", "$/h", lambda c: c.usd / hours),
        beside("planned", "Plans in force", "$/h", lambda c: c.planned_usd_per_hour, "rent and traffic, as planned"),
        beside("unmet", "Unmet demand", "%", _unmet, "of requests, beyond the certified capacity of what was ready"),
        beside("moves", "Moves", "instances/h", lambda c: c.moved / hours, "told to go though nothing ailed them"),
        fleet("fleet-happened", f"Fleet {HAPPENED}", replay.happened),
        fleet("fleet-replayed", f"Fleet {REPLAYED}", replay.replayed),
    )


def replay_page(found: Comparison, charts: tuple[Chart, ...]) -> Page:
    changed = "; ".join(found.policy) or "the same policy"
    was, now = found.happened, found.replayed
    return Page(
        title=f"{found.fleet}: replay",
        lead=f"{found.since[:16].replace('T', ' ')} to {found.until[:16].replace('T', ' ')} UTC, {changed}; "
        f"seed {found.seed}.",
        tiles=(
            Tile("cost", f"{now.usd:,.2f} $", f"{was.usd:,.2f} $ as it was{_change(was.usd, now.usd)}"),
            Tile("unmet demand", f"{100 * now.unmet_share:.2f} %", f"{100 * was.unmet_share:.2f} % as it was"),
            Tile("moves", f"{now.moved:,}", f"{was.moved:,} as it was"),
            Tile("refused calls", f"{now.refused:,}", f"{was.refused:,} as it was"),
        ),
        sections=(
            Section("In all", found.troubles, (_totals(was, now),)),
            Section("Over time", charts=charts),
            Section("What was assumed", found.notes),
        ),
    )


def _totals(was: Figures, now: Figures) -> Table:
    rows = [
        ("cost, $", f"{was.usd:,.2f}", f"{now.usd:,.2f}"),
        ("plans in force, $/h", *(_usd(each.planned_usd_per_hour) for each in (was, now))),
        ("requests, of the planned lengths", f"{was.offered_requests:,.0f}", f"{now.offered_requests:,.0f}"),
        ("of them unmet", f"{was.unmet_requests:,.0f}", f"{now.unmet_requests:,.0f}"),
        ("instances launched", f"{was.launched:,}", f"{now.launched:,}"),
        ("instances moved", f"{was.moved:,}", f"{now.moved:,}"),
        ("instances failed", f"{was.failed:,}", f"{now.failed:,}"),
        ("calls for nodes refused", f"{was.refused:,}", f"{now.refused:,}"),
    ]
    return Table(("", HAPPENED, REPLAYED), tuple(rows))


def _unmet(course: Course) -> Floats:
    share: Floats = np.divide(
        100 * course.unmet, course.offered, out=np.full(len(course.offered), np.nan), where=course.offered > 0
    )
    return share


def _usd(value: float | None) -> str:
    return "" if value is None else f"{value:,.2f}"


def _change(was: float, now: float) -> str:
    return f" ({100 * (now / was - 1):+.1f} %)" if was > 0 else ""
