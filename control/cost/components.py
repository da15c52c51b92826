"""Charges of instances by what runs on them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from msgspec import UnsetType

from control.db.database import Database
from control.db.instances import PostgresInstances
from control.db.plans import PostgresPlans
from control.ledger.charge import Charge
from templates_lib.sources.placement_kinds import executors_of
from templates_lib.values.placement import Executor, UnitPlacement


def executors_by_instance(database: Database, charges: Iterable[Charge]) -> dict[str, tuple[Executor, ...]]:
    """Instance → its executors; none where its template cannot be read. Raises DatabaseUnavailableError."""
    templates = PostgresInstances(database).templates({charge.instance_id for charge in charges})
    return {name: executors_of(template) or () for name, template in templates.items()}


def by_component(
    database: Database, charges: Iterable[Charge], executors: Mapping[str, Sequence[Executor]]
) -> Iterator[Charge]:
    """Split the charges of instances that run several models between them. Raises DatabaseUnavailableError."""
    several = {name: tuple(own) for name, own in executors.items() if len(own) > 1}
    paid = _member_shares(database, several)
    for charge in charges:
        name = charge.instance_id
        if name not in several:
            yield charge
        else:
            yield from charge.split(paid.get(name) or UnitPlacement(several[name]).component_shares)


def _member_shares(database: Database, executors: Mapping[str, Sequence[Executor]]) -> dict[str, dict[str, Fraction]]:
    """Return what share of its rent each member of a unit pays, by instance, as the plan says that asked for it."""
    units = [name for name, own in executors.items() if all(each.graph is None for each in own)]
    found = {}
    for name, planned in PostgresPlans(database).planned(units).items():
        paid, models = planned.usd_per_hour_by_member, {each.component for each in executors[name]}
        if isinstance(paid, UnsetType) or paid.keys() != models:
            continue
        whole = sum(map(Fraction, paid.values()), Fraction(0))
        if whole > 0:
            found[name] = {model: Fraction(usd) / whole for model, usd in paid.items()}
    return found
