"""The API token that `medley up` hands out: made once, kept in a file that only its owner may read."""

from datetime import datetime
from pathlib import Path

from control.access.role import Role
from control.access.secret import Secret
from control.db.api_tokens import PostgresApiTokens
from control.up.home import write_private


def ensure_api_key(path: Path, tokens: PostgresApiTokens, now: datetime) -> Secret:
    """The token of `path`, if it works; a new one otherwise."""
    if path.exists():
        kept = Secret(path.read_text(errors="replace").strip())
        if tokens.authenticate(kept, now) is not None:
            return kept
    _, made = tokens.create("medley up", Role.CLIENT, now)
    write_private(path, made.reveal().encode())
    return made
