"""Charges of instances by what runs on them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from control.db.database import Database
from control.db.instances import PostgresInstances
from control.ledger.charge import Charge
from templates_lib.sources.placement_kinds import executors_of
from templates_lib.values.placement import Executor, UnitPlacement


def executors_by_instance(database: Database, charges: Iterable[Charge]) -> dict[str, tuple[Executor, ...]]:
    """Instance → its executors; none where its template cannot be read. Raises DatabaseUnavailableError."""
    templates = PostgresInstances(database).templates({charge.instance_id for charge in charges})
    return {name: executors_of(template) or () for name, template in templates.items()}


def by_component(charges: Iterable[Charge], executors: Mapping[str, Sequence[Executor]]) -> Iterator[Charge]:
    """Split the charges of instances that run several models between them."""
    for charge in charges:
        own = tuple(executors.get(charge.instance_id, ()))
        yield from charge.split(UnitPlacement(own).component_shares) if len(own) > 1 else (charge,)
