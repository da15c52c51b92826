"""Move the tables to a revision. Imports Alembic: only commands that migrate come here."""

from importlib.resources import files

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Forward to `revision`, in one transaction; nothing happens when the tables are there already."""
    command.upgrade(_config(connection), revision)


def downgrade(connection: Connection, revision: str) -> None:
    """Back to `revision` (`base`: no tables), in one transaction. What only newer tables hold is lost."""
    command.downgrade(_config(connection), revision)


def _config(connection: Connection) -> Config:
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(files("migrations")))
    return config
