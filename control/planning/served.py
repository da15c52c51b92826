"""Apps made of the models of a spec file, and the demand for them."""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from control.fleet_file.demand_section import ArrivalsSection, DemandSection
from control.fleet_file.document import Document, read_text
from control.fleet_file.located import located
from control.fleet_file.model_section import ModelSection
from control.fleet_file.own_model import OwnModel
from control.fleet_file.problem import SpecError, SpecProblem
from control.fleet_file.schema import FleetFile
from control.fleet_file.section import is_path
from control.planning.app_demand import ForecastChoice, Metered, Stated
from control.planning.startable import is_started
from control.planning.trace_files import arrivals_of, shape_of, trace_of
from policies.forecasts import PERIODS_S
from templates_lib.apps.app import App, llm_app
from templates_lib.apps.served_model import HeldModel, ServedModel
from templates_lib.apps.served_phases import served_by
from templates_lib.load.arrivals import Arrivals
from templates_lib.load.shapes import load_rates
from templates_lib.models.catalogue import load_models
from templates_lib.models.config_fields import UnsupportedModelError
from templates_lib.models.held_model import default_engines, held_by, refusal
from templates_lib.models.hf_config import model_from_hf_config
from templates_lib.models.model_spec import ModelSpec
from templates_lib.values.engines import ENGINES
from templates_lib.values.speculation import Speculation

MAX_CONFIG_BYTES = 1 << 22
TRACE_WINDOW_S = 60.0
"""Windows in which the busiest rate of a trace file is looked for."""


def served_apps(
    file: FleetFile, document: Document, own: Iterable[OwnModel]
) -> tuple[tuple[App, ...], dict[str, Stated | Metered], tuple[str, ...]]:
    """The apps, the demand by app, and notes on what was left out of their traces. `own`: registered models, beside
    those of the catalogue. Raises SpecError with every file that cannot be used, at the line that names it."""
    folder, clouds = Path(document.file).parent, {each.cloud for each in file.clouds}
    registered = {model.name: model for model in own}
    apps: list[App] = []
    demand: dict[str, Stated | Metered] = {}
    problems: list[SpecProblem] = []
    notes: list[str] = []
    for place, section in enumerate(file.models):
        at = partial(document.position, "models", place)
        try:
            shape = located(at("workload"), shape_of, section.workload, folder, notes)
            asked = located(at("demand", "trace"), demand_of, section.demand, folder, notes)
            arrivals = located(at("demand", "arrivals"), _arrivals, section.demand.arrivals, folder, notes)
            model = located(at("model"), _model, section, folder, registered)
            engines = (section.engine,) if section.engine else default_engines(clouds, model.stored)
            held = [located(at("engine"), _held, engine, section.served_name, model) for engine in engines]
            whole = ServedModel(
                section.served_name,
                model,
                section.slo.value,
                shape,
                disaggregated=section.disaggregated,
                aggregated=section.aggregated,
                arrivals=arrivals,
                prefix_cache=section.prefix_cache,
                speculation=located(at("speculation"), _speculation, section, engines),
            )
            whole = located(at("engine"), served_by, whole, held)
            # What no cloud starts is planned to look at, where somebody asks for it by name.
            is_started_somewhere = section.engine is None or any(is_started(whole, cloud) for cloud in clouds)
            whole = replace(whole, only_where_started=is_started_somewhere)
        except SpecError as error:
            problems += error.problems
            continue
        apps.append(llm_app(whole))
        demand[whole.name] = asked
    if problems:
        raise SpecError(problems)
    return tuple(apps), demand, tuple(dict.fromkeys(notes))


def _model(section: ModelSection, folder: Path, registered: Mapping[str, OwnModel]) -> ModelSpec:
    if section.model in registered:
        return registered[section.model].spec()
    if not is_path(section.model):
        return load_models()[section.model]
    path = folder / section.model
    text = read_text(path, MAX_CONFIG_BYTES)
    try:
        config = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{path}: is not JSON: {error}") from None
    # The text of the file is the only revision that is known of it.
    revision = f"config.json {hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}"
    try:
        return model_from_hf_config(config, section.served_name, revision)
    except UnsupportedModelError as error:
        raise ValueError(f"{path}: {error}") from None


def _held(engine: str, name: str, model: ModelSpec) -> HeldModel:
    """Raises ValueError where the engine does not run the model."""
    why = None if model.stored is None else refusal(engine, name, model.stored)
    if why is not None:
        raise ValueError(why)
    return HeldModel(engine, held_by(engine, model))


def _speculation(section: ModelSection, engines: Iterable[str]) -> Speculation | None:
    """Raises ValueError where an engine that may serve the model verifies no drafts."""
    if section.speculation is None:
        return None
    cannot = [engine for engine in engines if not ENGINES[engine].verifies_drafts]
    if cannot:
        able = " or ".join(name for name, kind in ENGINES.items() if kind.verifies_drafts)
        raise ValueError(
            f"engine {cannot[0]}, which would serve the model, verifies no drafts: set `engine` to {able}, or remove "
            "`speculation`"
        )
    return section.speculation.value


def demand_of(demand: DemandSection, folder: Path, notes: list[str]) -> Stated | Metered:
    """The demand for all request types of an app. `notes`: where those on a trace are added. Raises ValueError."""
    if demand.metered:
        return _metered(demand)
    if demand.requests_per_s is not None:
        return Stated(demand.requests_per_s, demand.priority)
    assert demand.trace is not None  # noqa: S101 - the schema wants one of the two
    if is_path(demand.trace):
        series = trace_of(demand.trace, folder, notes).rates(TRACE_WINDOW_S)
    else:
        series = load_rates(demand.trace)
    rate = series.peak_requests_per_s if demand.at == "peak" else series.mean_requests_per_s
    if rate == 0:
        raise ValueError(f"trace {demand.trace!r} holds no requests: the demand is 0")
    return Stated(rate * demand.scale, demand.priority)


def _arrivals(section: ArrivalsSection, folder: Path, notes: list[str]) -> Arrivals:
    if section.trace is not None:
        return arrivals_of(section.trace, folder, notes)
    return Arrivals() if section.cv is None else Arrivals(section.cv)


def _metered(demand: DemandSection) -> Metered:
    forecast, ceiling = demand.forecast, demand.ceiling_requests_per_s
    return Metered(
        forecast=ForecastChoice(
            forecast.policy,
            60 * forecast.half_life_minutes,
            PERIODS_S[forecast.period],
            forecast.quantile,
            3600 * forecast.window_hours,
        ),
        floor_requests_per_s=demand.floor_requests_per_s,
        ceiling_requests_per_s=math.inf if ceiling is None else ceiling,
        idle_s=60 * demand.idle_minutes,
        max_held_requests=demand.hold.max_requests,
        hold_timeout_s=demand.hold.timeout_s,
        priority=demand.priority,
    )
