"""The API token that `medley up` hands out: made once, kept in a file that only its owner may read."""

from pathlib import Path

from control.access.role import Role
from control.access.secret import Secret
from control.actions.context import ActionContext
from control.actions.tokens import create_token
from control.db.api_tokens import PostgresApiTokens
from control.up.home import write_private


def ensure_api_key(path: Path, act: ActionContext) -> Secret:
    """The token of `path`, if it works; a new one otherwise."""
    if path.exists():
        kept = Secret(path.read_text(errors="replace").strip())
        if PostgresApiTokens(act.database).authenticate(kept, act.now) is not None:
            return kept
    _, made = create_token(act, "medley up", Role.CLIENT)
    write_private(path, made.reveal().encode())
    return made
