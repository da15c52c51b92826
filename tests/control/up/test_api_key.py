"""The key that `medley up` hands out."""

from pathlib import Path

import pytest

from control.access.role import Role
from control.actions.context import ActionContext
from control.db.api_tokens import PostgresApiTokens
from control.db.database import Database
from control.up.bring_up import ensure_api_key
from tests.control.lifecycle.worlds import START


def test_it_is_made_once_kept_private_and_lets_clients_in(database: Database, tmp_path: Path) -> None:
    tokens, path = PostgresApiTokens(database), tmp_path / "api.key"
    made = ensure_api_key(path, ActionContext(database, START, "cli:me"))
    assert path.stat().st_mode & 0o077 == 0
    known = tokens.authenticate(made, START)
    assert known is not None
    assert known.role is Role.CLIENT
    assert ensure_api_key(path, ActionContext(database, START, "cli:me")).reveal() == made.reveal()
    assert len(tokens.list()) == 1


def test_one_that_was_revoked_is_replaced(database: Database, tmp_path: Path) -> None:
    tokens, path = PostgresApiTokens(database), tmp_path / "api.key"
    made = ensure_api_key(path, ActionContext(database, START, "cli:me"))
    tokens.revoke(tokens.list()[0].id, START)
    again = ensure_api_key(path, ActionContext(database, START, "cli:me"))
    assert again.reveal() != made.reveal()
    assert tokens.authenticate(again, START) is not None


@pytest.mark.parametrize("damage", [b"", b"\xff\xfe\x00", b"medley_0123456789ab_" + b"0" * 64, b"\n\n"])
def test_a_file_that_holds_no_key_is_written_anew(database: Database, tmp_path: Path, damage: bytes) -> None:
    tokens, path = PostgresApiTokens(database), tmp_path / "api.key"
    path.write_bytes(damage)
    made = ensure_api_key(path, ActionContext(database, START, "cli:me"))
    assert path.read_text().strip() == made.reveal()
    assert tokens.authenticate(made, START) is not None
