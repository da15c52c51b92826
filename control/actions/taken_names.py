"""Names of models: clients say no more than that, so that one name cannot lead to two fleets."""

from collections.abc import Collection

from control.actions.refusal import NotNowError
from control.db.database import Database
from control.db.fleets import PostgresFleets
from control.fleet_file.model_section import if_readable, served_names
from control.lifecycle.fleet import may_serve


def refuse_taken(database: Database, fleet: str, models: Collection[str]) -> None:
    """Raises NotNowError when another fleet that may serve has a model of one of these names. One that has only ever
    observed keeps none from others, and neither does one whose spec cannot be read: it is set aside by the loop."""
    fleets = PostgresFleets(database)
    targets = fleets.targets()
    for other in fleets.all():
        if other.name == fleet or not may_serve(other, targets.get(other.name)):
            continue
        names = if_readable(served_names, other.spec) or frozenset()
        if taken := sorted(names & set(models)):
            raise NotNowError(
                f"fleet {other.name!r} serves {' and '.join(taken)} already, and clients could not tell the two apart:"
                " give the model another `name` here, or end that fleet; mode observe plans without serving"
            )
