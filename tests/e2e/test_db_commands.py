"""`medley db` on the embedded server and on one that a URL names: up, down, and what the others say meanwhile."""

from pathlib import Path

import pytest

from control.db.revision import REVISIONS
from tests.e2e.conftest import Run

HEAD, FIRST = REVISIONS[-1], REVISIONS[0]


@pytest.fixture(params=["embedded", "url"])
def where(request: pytest.FixtureRequest, short_tmp: Path) -> dict[str, str]:
    """The environment that names a database of the test's own, without tables where a URL names it."""
    if request.param == "embedded":
        return {"MEDLEY_HOME": str(short_tmp / "db-commands")}
    return {"MEDLEY_DATABASE_URL": request.getfixturevalue("empty_database_url")}


def test_tables_go_up_and_down_and_others_say_what_to_do(medley: Run, where: dict[str, str]) -> None:
    if "MEDLEY_DATABASE_URL" in where:
        refused = medley("plans", "list", **where)
        assert refused.returncode == 1
        assert "has no Medley tables: run `medley db upgrade`" in refused.stderr
    assert f"is at revision {HEAD}" in medley("db", "upgrade", **where).stdout
    assert f"revision {HEAD}, ready" in medley("db", "status", **where).stdout
    assert f"is at revision {FIRST}" in medley("db", "downgrade", FIRST, **where).stdout
    refused = medley("plans", "list", **where)
    assert refused.returncode == 1
    assert f"is at revision {FIRST}, this release needs {HEAD}: run `medley db upgrade`" in refused.stderr
    assert "is at revision base" in medley("db", "downgrade", "base", **where).stdout
    assert medley("db", "upgrade", **where).returncode == 0
    assert "database" in medley("db", "status", "-o", "yaml", **where).stdout


def test_an_unknown_revision_is_refused_before_anything_is_lost(medley: Run) -> None:
    refused = medley("db", "downgrade", "000")
    assert refused.returncode == 1
    assert "unknown revision '000'; did you mean '0001'" in refused.stderr
    assert medley("db", "status").returncode == 0


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://u:secret@h/d", "Medley needs PostgreSQL; the database URL names 'mysql'"),
        ("no url, secret", "the database URL cannot be read"),
        ("postgresql://u:secret@127.0.0.1:1/d", "postgresql://u:***@127.0.0.1:1/d does not answer"),
    ],
)
def test_a_database_that_cannot_be_used_is_named_without_its_password(medley: Run, url: str, said: str) -> None:
    refused = medley("plans", "list", "--database-url", url)
    assert refused.returncode == 1
    assert said in refused.stderr
    assert "secret" not in refused.stderr
    assert refused.stderr.count("\n") == 1
