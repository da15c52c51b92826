"""A scenario, checked and read: everything that a simulation starts from."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import inf
from pathlib import Path

import numpy as np

from control.fleet_file.document import Document, parse, read_text
from control.fleet_file.located import located
from control.fleet_file.problem import SpecError, SpecProblem
from control.fleet_file.validation import validated
from control.planning.recording import decode_plan
from control.planning.world import World, read_world
from control.simulator.market_log import MarketLog, market_log
from control.simulator.market_rows import LogTime, Place, read_log
from control.simulator.request_trace import Stream
from control.simulator.scenario_schema import DemandSeen, MarketSection, ScenarioFile, StreamSection
from control.simulator.step_log import StepLog
from control.simulator.streams import Span, stream_of
from control.simulator.traffic import Traffic
from templates_lib.load.workload import WorkloadShape
from templates_lib.values.nearest_name import nearest_name
from templates_lib.values.plan import Plan

_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True, eq=False)
class Scenario:
    """Times are seconds from `start`."""

    name: str
    world: World
    """The fleet, as its spec file has it."""
    spec: str
    """Its text."""
    folder: str
    """Where relative paths in it begin."""
    start: datetime
    length_s: float
    seed: int
    strategy: str
    """`medley`, a baseline as `policies.baselines.BASELINES` calls it, or `fixed`."""
    fixed: Plan | None
    """Plan of strategy `fixed`."""
    demand: DemandSeen
    replan_s: float
    startup_s: tuple[float, float]
    """Least and most, from a whole gang to its first request."""
    warm: bool
    traffic: Traffic
    market: MarketLog
    sources: tuple[str, ...]
    """Sources of traffic, prices and availability, in words."""
    notes: tuple[str, ...]
    """On what was left out of the traces of the traffic and of the fleet."""

    def at(self, seconds: float) -> datetime:
        return self.start + timedelta(seconds=seconds)


def read_scenario(path: Path) -> Scenario:
    """Raises SpecError with every problem of the file, and of the files that it names, at once."""
    document = parse(read_text(path), str(path))
    return scenario_of(document, validated(document, ScenarioFile))


def scenario_of(document: Document, file: ScenarioFile) -> Scenario:
    """`file`: the checked content of `document`, whose place relative paths begin at. Raises SpecError."""
    folder = Path(document.file).parent
    world = located(document.position("fleet"), read_world, folder / file.fleet)
    fixed = None
    if file.plan is not None:
        plan = folder / file.plan
        fixed = located(document.position("plan"), lambda: decode_plan(read_text(plan).encode(), str(plan)))
    length_s = 60 * file.minutes
    problems: list[SpecProblem] = []
    notes = list(world.notes)
    traffic = market = None
    try:
        traffic = _traffic(document, file, world, Span(file.start, length_s), notes)
    except SpecError as error:
        problems += error.problems
    try:
        market = _market(document, file.market, world, LogTime(file.start, length_s))
    except SpecError as error:
        problems += error.problems
    if problems or traffic is None or market is None:
        raise SpecError(problems)
    own_startup = 60 * world.fleet.settings.startup_minutes
    startup = file.startup
    return Scenario(
        name=file.name,
        world=world,
        spec=read_text(folder / file.fleet),
        folder=str((folder / file.fleet).absolute().parent),
        start=file.start,
        length_s=length_s,
        seed=file.seed,
        strategy=file.strategy.replace("-", "_"),
        fixed=fixed,
        demand=file.demand,
        replan_s=60 * (file.replan_minutes or world.fleet.reconcile.replan_minutes),
        startup_s=((60 * startup.least_minutes, 60 * startup.most_minutes) if startup else (own_startup, own_startup)),
        warm=file.warm,
        traffic=traffic,
        market=market,
        sources=tuple(_sources(file)),
        notes=tuple(dict.fromkeys(notes)),
    )


def _traffic(document: Document, file: ScenarioFile, world: World, span: Span, notes: list[str]) -> Traffic:
    streams: list[tuple[str, Stream]] = []
    problems: list[SpecProblem] = []
    for place, section in enumerate(file.traffic):
        key = ("traffic", place)
        shape = _shape(section.model, world)
        if shape is None:
            names = [app.name for app in world.fleet.apps]
            text = f"{section.model!r} is not in fleet {world.name}; {nearest_name(section.model, names)}"
            problems.append(document.problem((*key, "model"), f"traffic[{place}].model: {text}"))
            continue
        try:
            named = (*key, (section.synthetic and "synthetic") or ((section.trace and "trace") or "rates"))
            seed = (file.seed, place)
            folder = Path(document.file).parent
            stream = located(document.position(*named), stream_of, section, folder, shape, span, seed, notes)
            streams.append((section.model, stream))
        except SpecError as error:
            problems += error.problems
    if problems:
        raise SpecError(problems)
    return located(document.position("traffic"), Traffic, streams, world.fleet.apps)


def _shape(model: str, world: World) -> WorkloadShape | None:
    """Lengths of an app of the fleet, all its request types together; None: there is none of that name."""
    parts = [served.shape for app in world.fleet.apps if app.name == model for served in app.components]
    if not parts:
        return None
    prompts = np.concatenate([part.prompt_tokens for part in parts])
    outputs = np.concatenate([part.output_tokens for part in parts])
    return WorkloadShape(model, prompts, outputs)


def _market(document: Document, section: MarketSection, world: World, time: LogTime) -> MarketLog:
    folder = Path(document.file).parent
    prices: dict[Place, StepLog] = {}
    stock: dict[Place, StepLog] = {}
    if section.prices is not None:
        hold_h = section.prices.hold_hours
        held = replace(time, hold_s=inf if hold_h is None else _HOUR_S * hold_h)
        at = document.position("market", "prices", "file")
        prices = dict(located(at, read_log, folder / section.prices.file, "usd_per_hour", held, _wrong_price))
    if section.availability is not None:
        at = document.position("market", "availability", "file")
        stock = dict(located(at, read_log, folder / section.availability.file, "available", time, _wrong_stock))
    known = section.availability is None or section.availability.known
    return located(document.position("market"), market_log, world.quotes, prices, stock, known=known)


def _wrong_price(usd_per_hour: float) -> str:
    return "" if usd_per_hour > 0 else f"usd_per_hour is {usd_per_hour:g}: a machine that can be rented costs something"


def _wrong_stock(nodes: float) -> str:
    return "" if nodes >= 0 and nodes == int(nodes) else f"available is {nodes:g}, not a whole number of nodes"


def _sources(file: ScenarioFile) -> Iterator[str]:
    for stream in file.traffic:
        yield f"traffic of {stream.model}: {_words(stream)}"
    if file.market.prices is not None:
        yield f"prices: {file.market.prices.file}"
    if file.market.availability is not None:
        yield f"availability: {file.market.availability.file}"


def _words(stream: StreamSection) -> str:
    what = stream.synthetic or stream.trace or str(stream.rates)
    rate = f", {stream.requests_per_s:g} requests/s" if stream.requests_per_s is not None else ""
    scale = f", x {stream.scale:g}" if stream.scale is not None else ""
    burst = f", cv {stream.cv:g}" if stream.cv is not None else ""
    again = ", repeated" if stream.repeat else ""
    return f"{what}{rate}{scale}{burst}{again}"
