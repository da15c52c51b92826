"""The pictures of a simulation."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.messages.to_scheduler import Leg
from control.simulator.report.chart import MOST_LINES, Chart, Kind, Line, cumulative, largest
from control.simulator.report.fate import Fate, Judged, first_answer
from control.simulator.report.over_time import amounts, spread
from control.simulator.report.work import work_of
from control.simulator.result import Epoch, NodeSpan, SimulationResult

Floats = NDArray[np.float64]

_MOST_EPOCHS = 400
"""Steps that a picture can show; more are drawn as means of several."""


@dataclass(frozen=True, slots=True, eq=False)
class _Grid:
    edges: Floats
    """(e + 1,) seconds"""
    axis: Floats
    """The same, in `unit`."""
    unit: str
    epochs: tuple[tuple[Epoch, ...], ...]
    """(e,) what lies between the edges."""


def charts_of(result: SimulationResult, judged: Judged) -> tuple[Chart, ...]:
    grid = _grid(result)
    return (
        _cost(result, grid),
        _goodput(result, judged, grid),
        _within(result, judged, grid),
        _utilisation(result, grid),
        _busy(result, grid),
        _fleet(result, grid),
        *_latencies(result, judged),
    )


def time_unit(length_s: float) -> tuple[float, str]:
    """(seconds, name) of what a span of that length is told in."""
    for seconds, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if length_s >= 3 * seconds:
            return seconds, name
    return 1.0, "seconds"


def _grid(result: SimulationResult) -> _Grid:
    """So many epochs together that they can be seen."""
    every = max(1, -(-len(result.epochs) // _MOST_EPOCHS))
    groups = tuple(result.epochs[n : n + every] for n in range(0, len(result.epochs), every))
    edges = np.array([*(group[0].from_s for group in groups), result.facts.length_s])
    per, unit = time_unit(result.facts.length_s)
    return _Grid(edges, edges / per, unit, groups)


def _cost(result: SimulationResult, grid: _Grid) -> Chart:
    app_of = {instance.id: instance.app for instance in result.instances}
    lines = _of_nodes(result.nodes, grid, lambda node: app_of[node.instance], _usd_per_hour, _order(result))
    return Chart("cost", "Cost of nodes", grid.unit, "$/h", Kind.STACK, lines, "by model, from the request to the end")


def _goodput(result: SimulationResult, judged: Judged, grid: _Grid) -> Chart:
    work, lines = work_of(result, judged), []
    text = {model.name for model in result.models if model.makes_text}
    for n, app in enumerate(result.requests.apps):
        own = work.good & (result.requests.app == n)
        tokens = spread(grid.edges, work.begin_s[own], work.end_s[own], work.output_tokens[own])
        if app in text or not text:  # a request without text counts as one token, which is comparable with its like
            lines.append(Line(app, tokens / np.diff(grid.edges), grid.axis))
    what, unit = ("output tokens of requests", "tokens/s") if text else ("requests", "requests/s")
    note = f"{what} that were served within their objectives"
    return Chart("goodput", "Goodput", grid.unit, unit, Kind.STEPS, largest(lines), note)


def _within(result: SimulationResult, judged: Judged, grid: _Grid) -> Chart:
    lines = []
    known = judged.fate != Fate.UNFINISHED
    for n, app in enumerate(result.requests.apps):
        own = known & (result.requests.app == n)
        came, _ = np.histogram(result.requests.arrival_s[own], grid.edges)
        good, _ = np.histogram(result.requests.arrival_s[own & (judged.fate == Fate.WITHIN)], grid.edges)
        share = np.divide(good, came, out=np.full(len(came), np.nan), where=came > 0)
        lines.append(Line(app, 100 * share, grid.axis))
    wanted = {model.slo.percentile for model in result.models}
    level = wanted.pop() if len(wanted) == 1 else None
    title, note = "Requests within their objectives", "by arrival; dashed: what is promised"
    return Chart("attainment", title, grid.unit, "%", Kind.STEPS, largest(lines), note, top=101.0, level=level)


def _utilisation(result: SimulationResult, grid: _Grid) -> Chart:
    lines = []

    def units(of: Callable[[Epoch], Mapping[str, float]], name: str) -> Floats:
        sums = [sum((e.until_s - e.from_s) * of(e).get(name, 0.0) for e in group) for group in grid.epochs]
        return np.array(sums, np.float64)

    for name in dict.fromkeys(name for model in result.models for name in model.work_classes):
        needed = units(lambda e: e.demand_units_per_s, name)
        there = units(lambda e: e.capacity_units_per_s, name)
        share = np.divide(needed, there, out=np.full(len(there), np.nan), where=there > 0)
        lines.append(Line(name, 100 * share, grid.axis))
    note = "work that came, of the certified capacity of ready instances"
    return Chart("utilisation", "Utilisation", grid.unit, "%", Kind.STEPS, largest(lines), note, level=100.0)


def _busy(result: SimulationResult, grid: _Grid) -> Chart:
    """Draw the share of the time of nodes whose instances were ready, by model and leg."""
    use = result.served.use
    there: dict[str, Floats] = {}
    busy: dict[str, Floats] = {}
    none = np.zeros(len(grid.epochs))
    for n, life in enumerate(result.fleet.instances):
        name = f"{life.app}/{life.leg}"
        nodes = float(life.station.node_count)
        begin_s = (use.first[n] + np.arange(len(use.busy_s[n]))) * use.interval_s
        own = spread(grid.edges, begin_s, begin_s + use.interval_s, use.busy_s[n])
        lived = amounts(grid.edges, *(np.array([each]) for each in (life.ready_s, life.gone_s, nodes)))
        busy[name], there[name] = busy.get(name, none) + own, there.get(name, none) + lived
    lines = [
        Line(name, 100 * np.divide(own, there[name], out=np.full(len(own), np.nan), where=there[name] > 0), grid.axis)
        for name, own in sorted(busy.items(), key=lambda each: _place(result, each[0]))
    ]
    note = "share of their time in which nodes of ready instances computed"
    return Chart("busy", "Nodes at work", grid.unit, "%", Kind.STEPS, largest(lines), note)


def _fleet(result: SimulationResult, grid: _Grid) -> Chart:
    lines = _of_nodes(result.nodes, grid, lambda node: f"{node.node_config} {node.market}", lambda _: 1.0, str)
    return Chart("fleet", "Fleet", grid.unit, "nodes", Kind.STACK, lines, "held, by configuration and market")


def _latencies(result: SimulationResult, judged: Judged) -> tuple[Chart, ...]:
    first: list[Line] = []
    gaps: list[Line] = []
    for model in result.models:
        if model.name not in result.requests.apps:
            continue
        own = result.requests.app == result.requests.apps.index(model.name)
        for lines, values, limit in (
            (first, judged.ttft_ms, model.slo.ttft_ms),
            (gaps, judged.tpot_ms, model.slo.tpot_ms),
        ):
            x, y = cumulative(values[own & ~np.isnan(values)])
            if model.makes_text or lines is first:
                lines.append(Line(model.name, y, x, limit if limit < np.inf else None))
    grows = any(model.slo.ttft_ms_per_1k_prompt_tokens for model in result.models)
    more = ", which grows with the prompt" if grows else ""
    title = f"Time to {first_answer(model.makes_text for model in result.models)}"
    answers = _distribution("ttft", title, first, f"dashed: objective{more}")
    return answers, *([_distribution("tpot", "Time per output token", gaps, "dashed: objective")] if gaps else [])


def _distribution(name: str, title: str, lines: list[Line], note: str) -> Chart:
    shown = tuple(lines[:MOST_LINES])
    return Chart(name, title, "ms", "share of requests", Kind.CURVE, shown, note, log_x=True, top=1.02)


def _of_nodes(
    nodes: Iterable[NodeSpan],
    grid: _Grid,
    name: Callable[[NodeSpan], str],
    rate: Callable[[NodeSpan], float],
    order: Callable[[str], Any],
) -> tuple[Line, ...]:
    """Means over each epoch of what nodes have while they are held."""
    groups: dict[str, list[tuple[float, float, float]]] = {}
    for node in nodes:
        groups.setdefault(name(node), []).append((node.from_s, node.until_s, rate(node)))
    lines = []
    for key in sorted(groups, key=order):
        begin, end, rates = np.array(groups[key]).T
        lines.append(Line(key, amounts(grid.edges, begin, end, rates) / np.diff(grid.edges), grid.axis))
    return largest(lines)


def _order(result: SimulationResult) -> Callable[[str], tuple[int, str]]:
    """Return the order of models, of which one has one colour in all pictures; what only serves parts comes last."""
    names = [*result.requests.apps, *(m.name for m in result.models if m.name not in result.requests.apps)]
    return lambda name: (names.index(name) if name in names else len(names), name)


def _place(result: SimulationResult, app_and_leg: str) -> tuple[tuple[int, str], int, str]:
    app, _, leg = app_and_leg.rpartition("/")
    return _order(result)(app), list(Leg).index(Leg(leg)) if leg in list(Leg) else len(Leg), leg


def _usd_per_hour(node: NodeSpan) -> float:
    held_s = node.until_s - node.from_s
    return 3600 * node.spent_usd / held_s if held_s > 0 else 0.0
