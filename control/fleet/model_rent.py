"""What each model cost in a span, and which of its API keys used it."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TypeVar

from control.cost.components import by_component, executors_by_instance
from control.db.database import Database
from control.db.fleets import PostgresFleets
from control.db.ledger import PostgresLedger
from control.db.series_step import SeriesOf, Steps
from control.db.traffic_series import served_by_key, traffic_series
from control.fleet.series import utilisation_of_span
from control.fleet_file.model_section import architectures, if_readable
from control.ledger.charge import Charge
from control.ledger.key_work import KeyWork
from control.ledger.period import Period
from control.ledger.rent_split import Rent, rent_parts
from templates_lib.values.placement import Executor
from templates_lib.values.work import Phase

_Model = tuple[str, str]
"""Fleet, and a model's name."""
Who = TypeVar("Who")


@dataclass(frozen=True)
class ModelRent:
    fleet: str
    model: str
    """As clients name it; of what no client reached, as its instances do."""
    rent: Rent
    used: float | None
    """Share of its ready capacity that was used, of all of the span; None: it is not known."""
    works: tuple[KeyWork, ...]
    """Of keys that were served anything."""

    @cached_property
    def parts(self) -> tuple[Fraction, ...]:
        """Dollars of each work."""
        return rent_parts(self.rent, self.used, self.works)

    @property
    def idle_usd(self) -> Fraction:
        """Dollars for what nobody used."""
        return self.rent.usd - sum(self.parts, Fraction(0))


def model_rents(database: Database, steps: Steps, fleet: str | None = None) -> list[ModelRent]:
    """List the models that cost or served anything, of all fleets or one. What leaked is no model's. Raises
    DatabaseUnavailableError."""
    works: defaultdict[_Model, list[KeyWork]] = defaultdict(list)
    for work in served_by_key(database, steps.since, steps.until, fleet):
        works[work.fleet, work.model].append(work)
    charges = [
        charge
        for charge in PostgresLedger(database).charges(Period(steps.since, steps.until))
        if not charge.leaked and fleet in (None, charge.fleet)
    ]
    executors = executors_by_instance(database, charges)
    rents = _by_client_name(_rents(database, charges, executors), works, _architectures(database))
    traffic = traffic_series(database, steps, SeriesOf(fleet))
    used = utilisation_of_span(database, steps, SeriesOf(fleet), traffic)
    return [
        ModelRent(*key, rents.get(key, Rent()), used.get(key), tuple(works.get(key, ())))
        for key in sorted({*rents, *works})
    ]


def paid_by(rents: Iterable[ModelRent], whose: Callable[[KeyWork], Who]) -> dict[Who, tuple[Fraction, list[KeyWork]]]:
    """Add up the dollars of works, and list these, by whose they are."""
    usd: defaultdict[Who, Fraction] = defaultdict(Fraction)
    works: defaultdict[Who, list[KeyWork]] = defaultdict(list)
    for rent in rents:
        for work, part in zip(rent.works, rent.parts, strict=True):
            usd[whose(work)] += part
            works[whose(work)].append(work)
    return {who: (usd[who], own) for who, own in works.items()}


def _rents(
    database: Database, charges: Iterable[Charge], executors: Mapping[str, Sequence[Executor]]
) -> dict[_Model, Rent]:
    """Return rents by fleet and the name that instances have for their model."""
    # Executors of a graph are parts of one model: only those of shared units are models of their own.
    units = {name: own for name, own in executors.items() if all(each.graph is None for each in own)}
    found: defaultdict[_Model, Rent] = defaultdict(Rent)
    for charge in by_component(database, charges, units):
        phases = {
            nodes.phase
            for executor in executors.get(charge.instance_id, ())
            for stage in executor.stages
            for nodes in stage.nodes
        }
        prompts = charge.usd if phases == {Phase.PREFILL} else Fraction(0)
        answers = charge.usd if phases == {Phase.DECODE} else Fraction(0)
        found[charge.fleet, charge.model] += Rent(charge.usd, prompts, answers)
    return found


def _architectures(database: Database) -> Mapping[_Model, str]:
    """Fleet and name → what instances call it."""
    return {
        (record.name, name): own
        for record in PostgresFleets(database).all()
        for name, own in (if_readable(architectures, record.spec) or {}).items()
    }


def _by_client_name(
    rents: Mapping[_Model, Rent], works: Mapping[_Model, Iterable[KeyWork]], known: Mapping[_Model, str]
) -> dict[_Model, Rent]:
    """Return rents by fleet and the name that clients use. Names of one architecture in one fleet share the dollars of
    its instances by tokens."""
    names: defaultdict[_Model, list[str]] = defaultdict(list)
    for (fleet, name), own in known.items():
        names[fleet, own].append(name)
    found: defaultdict[_Model, Rent] = defaultdict(Rent)
    for (fleet, own), rent in rents.items():
        tokens = {
            name: sum(work.tokens for work in works.get((fleet, name), ())) for name in names.get((fleet, own), [own])
        }
        whole = sum(tokens.values())
        for name, count in tokens.items():
            found[fleet, name] += rent.part(Fraction(count, whole) if whole else Fraction(1, len(tokens)))
    return found
