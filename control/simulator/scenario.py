"""A scenario, checked and read: everything that a simulation starts from."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import inf
from pathlib import Path

import numpy as np

from control.fleet_file.document import Document, parse, read_text
from control.fleet_file.located import located
from control.fleet_file.problem import SpecError, SpecProblem
from control.fleet_file.validation import validated
from control.planning.recording import Recording, read_plan, read_recording
from control.planning.world import World, read_world
from control.simulator.market_log import MarketLog, market_log
from control.simulator.market_rows import LogTime, Place, read_log
from control.simulator.recorded_models import recorded_models, text_model
from control.simulator.request_trace import Stream
from control.simulator.result import SimulatedModel
from control.simulator.scenario_schema import MarketSection, ScenarioFile, StreamSection
from control.simulator.step_log import StepLog
from control.simulator.streams import Span, stream_of
from control.simulator.traffic import Traffic
from templates_lib.apps.app import LONG, serving_id
from templates_lib.load.workload import WorkloadShape
from templates_lib.values.nearest_name import nearest_name
from templates_lib.values.plan import Plan

_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True, eq=False)
class Scenario:
    """Times are seconds from `start`."""

    name: str
    start: datetime
    length_s: float
    seed: int
    strategy: str
    """`medley`, a baseline as `policies.baselines.BASELINES` calls it, or `fixed`."""
    fixed: Plan | None
    """Plan of strategy `fixed`."""
    fleet: str
    """Name of the fleet, or of the snapshot."""
    demand: str
    """A `DemandSeen`, or `snapshot`: what that states."""
    replan_s: float
    models: tuple[SimulatedModel, ...]
    traffic: Traffic
    sources: tuple[str, ...]
    """Sources of traffic, prices and availability, in words."""
    notes: tuple[str, ...]
    """On what was left out of the traces of the traffic and of the fleet."""


@dataclass(frozen=True, slots=True, eq=False)
class FleetScenario(Scenario):
    """A fleet that is kept, and planned again and again."""

    world: World
    """The fleet, as its spec file has it."""
    spec: str
    """Its text."""
    folder: str
    """Where relative paths in it begin."""
    startup_s: tuple[float, float]
    """Least and most, from a whole gang to its first request."""
    install_s: Mapping[str, float]
    """What engines add to that, by engine: none where the scenario says what it takes."""
    warm: bool
    market: MarketLog


@dataclass(frozen=True, slots=True, eq=False)
class SnapshotScenario(Scenario):
    """A snapshot that is planned once."""

    recording: Recording


def read_scenario(path: Path) -> FleetScenario | SnapshotScenario:
    """Raises SpecError with every problem of the file, and of the files that it names, at once."""
    document = parse(read_text(path), str(path))
    file, folder, at = validated(document, ScenarioFile), path.parent, document.position
    world = recording = market = traffic = None
    length_s = 60 * file.minutes
    if file.snapshot is not None:
        templates = folder / file.templates if file.templates else None
        recording = located(at("snapshot"), read_recording, folder / file.snapshot, templates)
        models = located(at("snapshot"), recorded_models, recording)
        apps = {each.name: (each, *(m for m in models if m.name == serving_id(each.name, LONG))) for each in models}
        name, notes, demand, replan_s = recording.name, list(recording.notes), "snapshot", length_s
    else:
        spec = folder / (file.fleet or "")
        world = located(at("fleet"), _simulated_world, spec)
        apps = {app.name: tuple(map(text_model, app.components)) for app in world.fleet.apps}
        name, notes, demand = world.name, list(world.notes), file.demand.value
        replan_s = 60 * (file.replan_minutes or world.fleet.reconcile.replan_minutes)
    fixed = None if file.plan is None else located(at("plan"), read_plan, folder / file.plan)
    problems: list[SpecProblem] = []
    try:
        traffic = _traffic(document, file, name, apps, Span(file.start, length_s), notes)
    except SpecError as error:
        problems += error.problems
    try:
        market = None if world is None else _market(document, file.market, world, LogTime(file.start, length_s))
    except SpecError as error:
        problems += error.problems
    if problems or traffic is None:
        raise SpecError(problems)
    common = (
        file.name, file.start, length_s, file.seed, file.strategy.replace("-", "_"), fixed, name, demand, replan_s,
        tuple(dict.fromkeys(model for own in apps.values() for model in own)), traffic, tuple(_sources(file)),
        tuple(dict.fromkeys(notes)),
    )  # fmt: skip
    if recording is not None:
        return SnapshotScenario(*common, recording)
    assert world is not None and market is not None  # noqa: S101, PT018 - there was no problem
    settings, startup = world.fleet.settings, file.startup
    own_startup = 60 * settings.startup_minutes
    return FleetScenario(
        *common,
        world=world,
        spec=read_text(spec),
        folder=str(spec.absolute().parent),
        startup_s=((60 * startup.least_minutes, 60 * startup.most_minutes) if startup else (own_startup, own_startup)),
        install_s={} if startup else {engine: 60 * more for engine, more in settings.install_minutes.items()},
        warm=file.warm,
        market=market,
    )


def _traffic(
    document: Document,
    file: ScenarioFile,
    name: str,
    apps: Mapping[str, Sequence[SimulatedModel]],
    span: Span,
    notes: list[str],
) -> Traffic:
    """`name`: of what has the apps, for people."""
    streams: list[tuple[str, Stream]] = []
    problems: list[SpecProblem] = []
    for place, section in enumerate(file.traffic):
        key = ("traffic", place)
        if section.model not in apps:
            where = f"{'fleet' if file.fleet else 'snapshot'} {name}"
            text = f"{section.model!r} is not in {where}; {nearest_name(section.model, apps)}"
            problems.append(document.problem((*key, "model"), f"traffic[{place}].model: {text}"))
            continue
        try:
            named = (*key, (section.synthetic and "synthetic") or ((section.trace and "trace") or "rates"))
            seed = (file.seed, place)
            folder, shape = Path(document.file).parent, _shape(apps[section.model])
            stream = located(document.position(*named), stream_of, section, folder, shape, span, seed, notes)
            streams.append((section.model, stream))
        except SpecError as error:
            problems += error.problems
    if problems:
        raise SpecError(problems)
    return located(document.position("traffic"), Traffic, streams, apps)


def _shape(models: Sequence[SimulatedModel]) -> WorkloadShape:
    """Lengths of all request types of an app together; of one that makes no text a token each."""
    parts = [model.shape for model in models if model.shape] or [WorkloadShape("", *(np.ones((2, 1), np.int32)))]
    prompts = np.concatenate([part.prompt_tokens for part in parts])
    outputs = np.concatenate([part.output_tokens for part in parts])
    return WorkloadShape(models[0].name, prompts, outputs)


def _simulated_world(spec: Path) -> World:
    """Raises SpecError, and ValueError for what is not simulated."""
    world = read_world(spec)
    if world.fleet.graph_apps:
        names = ", ".join(app.name for app in world.fleet.graph_apps)
        text = (
            "which are simulated by one plan: record it with `medley plan --save-snapshot`, and name that as `snapshot`"
        )
        raise ValueError(f"{spec}: has apps ({names}), {text}")
    return world


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
