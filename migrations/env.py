"""Run revisions on the connection that `control.db.migrate` hands over, or on `-x url=…` of alembic's own command."""

from alembic import context
from sqlalchemy import Connection, create_engine, text

# They add their tables to the metadata.
from control.db import (  # noqa: F401
    access_tables,
    alert_tables,
    api_tables,
    cost_tables,
    demand_tables,
    fleet_tables,
    market_tables,
    reconcile_tables,
    run_tables,
    series_tables,
)
from control.db.tables import metadata

MIGRATION_LOCK = 0x6D65646C  # "medl"; any constant that all releases share


def run(connection: Connection) -> None:
    context.configure(connection=connection, target_metadata=metadata, compare_server_default=True)
    with context.begin_transaction():
        # Two first commands on a new database take turns; the second finds nothing left to do.
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": MIGRATION_LOCK})
        context.run_migrations()


given = context.config.attributes.get("connection")
if given is not None:
    run(given)
else:
    with create_engine(context.get_x_argument(as_dictionary=True)["url"]).connect() as own:
        run(own)
