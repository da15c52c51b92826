"""`medley token`: shown once, hashed ever after."""

import getpass
import json
import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

Run = Callable[..., CompletedProcess[str]]


def test_a_token_is_made_listed_and_revoked(medley: Run) -> None:
    made = medley("token", "create", "console", "--role", "operator", "--days", "7")
    assert made.returncode == 0, made.stderr
    match = re.fullmatch(r"medley_([0-9a-f]{12})_([0-9a-f]{64})\n", made.stdout)
    assert match is not None
    token_id, secret = match.groups()
    listed = medley("token", "list")
    assert re.search(rf"{token_id} +console +operator .* yes", listed.stdout)
    assert secret not in listed.stdout + listed.stderr + made.stderr
    assert medley("token", "revoke", token_id).returncode == 0
    (token,) = json.loads(medley("token", "list", "-o", "json").stdout)
    assert (token["id"], token["name"], token["role"]) == (token_id, "console", "operator")
    assert token["revoked_at"] is not None
    assert "revoked" in medley("token", "list").stdout
    events = json.loads(medley("audit", "-o", "json").stdout)
    kept = [(each["kind"], each["subject"], each["actor"]) for each in events]
    me = f"cli:{getpass.getuser()}"
    assert sorted(kept) == [("token.created", token_id, me), ("token.revoked", token_id, me)]


def test_mistakes_are_named(medley: Run) -> None:
    made = json.loads(medley("token", "create", "ci", "-o", "json").stdout)
    assert made["role"] == "viewer"
    assert made["expires_at"] is None
    for arguments, complaint in (
        (("revoke", made["id"][:-1] + "x"), f"is not stored; the nearest is '{made['id']}' (`medley token list`)"),
        (("create", " "), "needs a name"),
        (("create", "x", "--days", "-1"), "would never work"),
        (("create", "x", "--days", "nan"), "is no lifetime that a token can have"),
        (("create", "x", "--days", "1e30"), "is no lifetime that a token can have"),
        (("create", "x", "--role", "root"), "'root' is not one of"),
    ):
        run = medley("token", *arguments)
        assert run.returncode == 1
        assert complaint in re.sub(r"[│\s]+", " ", run.stderr), run.stderr


def test_the_home_of_tokens_holds_no_secret(medley: Run, home: Path) -> None:
    secret = medley("token", "create", "hidden").stdout.strip().rpartition("_")[2]
    files = [path for path in home.rglob("*") if path.is_file() and path.stat().st_size < 2**26]
    assert len(files) > 100
    assert not any(secret.encode() in path.read_bytes() for path in files)
