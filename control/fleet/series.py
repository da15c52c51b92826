"""Time series of what was asked, how fast it was answered, how busy instances were and what they cost. Plain values."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from control.db.burn import spent_between
from control.db.database import Database
from control.db.fleets import PostgresFleets
from control.db.load_series import Level, PostgresLoadSeries
from control.db.series_step import SeriesOf, Steps
from control.db.slo_samples import PostgresSloSamples, SloSample
from control.db.traffic_series import Counted, TrafficSeries
from control.fleet_file.model_section import SloSection, architectures, if_readable, slos_of
from control.lifecycle.fleet import FleetRecord, may_serve
from templates_lib.values.work import Phase


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model that clients reach, and the objectives that its fleet's spec has of it."""

    fleet: str
    name: str
    slo: SloSection
    serves: bool
    """Whether what gateways measured of the name is of this fleet."""


@dataclass(frozen=True, slots=True)
class LoadSeries:
    """Of a step nobody looked at None."""

    levels: list[Level | None]
    usd_per_hour: list[float]


def served_models(database: Database, of: SeriesOf) -> list[ServedModel]:
    """List the models of specs that can be read, by fleet and name. Raises DatabaseUnavailableError."""
    fleets = PostgresFleets(database)
    goals = fleets.targets()
    return [
        ServedModel(record.name, name, slo, may_serve(record, goals.get(record.name)))
        for record in _records(fleets, of)
        for name, slo in sorted((if_readable(slos_of, record.spec) or {}).items())
        if of.model is None or of.model == name
    ]


def with_architectures(database: Database, of: SeriesOf) -> SeriesOf:
    """Return `of` with all names by which instances may know its model. Raises DatabaseUnavailableError."""
    if of.model is None:
        return of
    names = {of.model}
    for record in _records(PostgresFleets(database), of):
        own = (if_readable(architectures, record.spec) or {}).get(of.model)
        names |= {own} if own is not None else set()
    return SeriesOf(of.fleet, of.model, tuple(sorted(names)), of.zone, of.instance)


def _records(fleets: PostgresFleets, of: SeriesOf) -> Iterable[FleetRecord]:
    return (each for each in fleets.all() if of.fleet is None or each.name == of.fleet)


def latency_samples(
    database: Database, steps: Steps, models: Iterable[ServedModel]
) -> dict[str, list[list[SloSample]]]:
    """Return what gateways measured of each model that is served, step by step. Raises DatabaseUnavailableError."""
    names = {each.name for each in models if each.serves}
    stored = PostgresSloSamples(database)
    read = stored.coarse if steps.are_coarse else stored.read
    found: dict[str, list[list[SloSample]]] = {name: [[] for _ in range(steps.count)] for name in names}
    for sample in read(names, steps.since, steps.until) if names else ():
        step = int((sample.begins_at - steps.since).total_seconds() // steps.step_s)
        found[sample.model][step].append(sample)
    return found


def load_series(database: Database, steps: Steps, of: SeriesOf) -> LoadSeries:
    """Raises DatabaseUnavailableError."""
    bounds = steps.bounds
    spent = spent_between(database, bounds, of=of)
    hours = [(end - begin).total_seconds() / 3600 for begin, end in pairwise(bounds)]
    usd_per_hour = [float(each.usd) / own if own else 0.0 for each, own in zip(spent, hours, strict=True)]
    return LoadSeries(PostgresLoadSeries(database).levels(steps, of), usd_per_hour)


def utilisations(
    database: Database, steps: Steps, of: SeriesOf, traffic: TrafficSeries
) -> dict[tuple[str, str], list[float | None]]:
    """Return what was served of what ready instances were planned to sustain, by fleet and model: of the class of work
    that is nearest to its capacity. None: nobody counted, or nothing was ready. Raises DatabaseUnavailableError."""
    found = _loads(database, steps, of, traffic)
    return {key: [_utilisation(key[1], [each]) for each in loads] for key, loads in found.items()}


def utilisation_of_span(
    database: Database, steps: Steps, of: SeriesOf, traffic: TrafficSeries
) -> dict[tuple[str, str], float | None]:
    """Return the same of all steps together. Steps with many instances count for more than those with few, as they cost
    more: no mean of shares."""
    return {key: _utilisation(key[1], loads) for key, loads in _loads(database, steps, of, traffic).items()}


@dataclass(frozen=True, slots=True)
class _Load:
    """Of one model in one step."""

    served: Mapping[str, int]
    """Units by work class; requests under the empty one."""
    watched_s: float
    capacities: Mapping[str, float | None]

    def sustained(self, work_class: str) -> float:
        """Units that ready instances would have served; 0: it is not known, or nothing was ready."""
        return self.watched_s * (self.capacities.get(work_class) or 0.0)


def _loads(
    database: Database, steps: Steps, of: SeriesOf, traffic: TrafficSeries
) -> dict[tuple[str, str], list[_Load]]:
    capacities = PostgresLoadSeries(database).capacities(steps, of)
    found = {}
    for (fleet, model), parts in traffic.models.items():
        own = {name: values for (at, name), values in capacities.items() if at == fleet}
        found[fleet, model] = [
            _Load(counted.served, watched_s, {name: values[step] for name, values in own.items()})
            for step, (counted, watched_s) in enumerate(zip(parts, traffic.watched_s, strict=True))
        ]
    return found


def _utilisation(model: str, loads: Sequence[_Load]) -> float | None:
    def used(work_class: str, counted: str) -> float | None:
        known = [(each.served.get(counted, 0), most) for each in loads if (most := each.sustained(work_class))]
        return sum(units for units, _ in known) / sum(most for _, most in known) if known else None

    apart = [used(name, name) for name in {name for each in loads for name in each.served if name}]
    both = used(f"{model}/{Phase.AGGREGATED}", "")
    shares = [max(known)] if (known := [each for each in apart if each is not None]) else []
    shares += [] if both is None else [both]
    if not shares:
        return None
    # Instances of both kinds share the requests: each share is what its kind would use if it served all of them.
    return 0.0 if min(shares) <= 0 else 1 / sum(1 / share for share in shares)


def total_traffic(models: Iterable[Sequence[Counted]], count: int) -> list[Counted]:
    """Return the sum of several models, step by step."""
    total = [Counted() for _ in range(count)]
    for parts in models:
        for own, part in zip(total, parts, strict=True):
            own.requests += part.requests
            own.refused += part.refused
            own.prompt_tokens += part.prompt_tokens
            own.output_tokens += part.output_tokens
    return total
