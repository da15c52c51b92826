"""Location of the database of a command: a server named by URL, or the embedded one in a directory."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from control.db.errors import DatabaseUrlError

URL_VARIABLE = "MEDLEY_DATABASE_URL"
HOME_VARIABLE = "MEDLEY_HOME"
_SECRET_PARAMETERS = ("password", "sslpassword", "passfile", "oauth_client_secret")


@dataclass(frozen=True, slots=True)
class DatabaseLocation:
    """Exactly one of the two is set."""

    url: URL | None
    data_dir: Path | None


def locate(url: str | None, data_dir: Path | None, environ: Mapping[str, str]) -> DatabaseLocation:
    """The first that is given: `url`, `data_dir`, MEDLEY_DATABASE_URL, MEDLEY_HOME/postgres, XDG data medley/postgres.

    Raises DatabaseUrlError for a URL that is not PostgreSQL's.
    """
    if url:
        return DatabaseLocation(parse_url(url), None)
    if data_dir is not None:
        return DatabaseLocation(None, data_dir.expanduser().absolute())
    if environ.get(URL_VARIABLE):
        return DatabaseLocation(parse_url(environ[URL_VARIABLE]), None)
    return DatabaseLocation(None, home_directory(environ) / "postgres")


def home_directory(environ: Mapping[str, str]) -> Path:
    """Folder of Medley's own files on this machine: MEDLEY_HOME, or XDG data medley."""
    if environ.get(HOME_VARIABLE):
        home = Path(environ[HOME_VARIABLE])
    else:
        home = Path(environ.get("XDG_DATA_HOME") or "~/.local/share") / "medley"
    return home.expanduser().absolute()


def parse_url(text: str) -> URL:
    """`postgresql://…` or `postgres://…` as a URL for psycopg 3; DatabaseUrlError, without the text, for all else."""
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        # Not chained: the parser's message may quote the text, password included.
        msg = "the database URL cannot be read; it looks like postgresql://USER:PASSWORD@HOST:5432/DATABASE"
        raise DatabaseUrlError(msg) from None
    if url.drivername not in ("postgresql", "postgres", "postgresql+psycopg"):
        msg = f"Medley needs PostgreSQL; the database URL names {url.drivername!r} (use postgresql://…)"
        raise DatabaseUrlError(msg)
    return url.set(drivername="postgresql+psycopg")


def redacted(url: URL) -> str:
    """The URL for people: without driver and secrets."""
    shown = url.set(drivername="postgresql").difference_update_query(_SECRET_PARAMETERS)
    return shown.render_as_string(hide_password=True)
