"""`medley doctor`: what is here, what is missing, and what is broken."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from control.cli.main import app
from control.doctor.accounts import of_accounts
from control.doctor.check import Health
from control.doctor.packages import PURPOSES, of_packages
from templates_lib.values.clouds import SKYPILOT, clouds_of


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("MEDLEY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def doctor(*arguments: str) -> tuple[int, dict[str, dict[str, str]]]:
    """Exit code, and checks by name."""
    result = CliRunner().invoke(app, ["doctor", "-o", "json", *arguments])
    return result.exit_code, {check["name"]: check for check in json.loads(result.stdout)}


def test_a_database_that_answers_is_well_and_what_is_missing_breaks_nothing(database_url: str) -> None:
    code, found = doctor("--database-url", database_url)
    assert code == 0
    assert (found["database"]["health"], found["gateway"]["health"]) == ("ok", "missing")
    assert {f"cloud.{cloud}" for cloud in clouds_of(SKYPILOT)} < found.keys()
    shown = CliRunner().invoke(app, ["doctor", "--database-url", database_url])
    assert shown.exit_code == 0
    assert all(name in shown.stdout for name in found)


def test_a_database_that_does_not_answer_is_broken_and_its_password_is_not_shown() -> None:
    code, found = doctor("--database-url", "postgresql://me:sesame@127.0.0.1:1/x")
    assert code == 1
    assert found["database"]["health"] == "broken"
    assert "127.0.0.1" in found["database"]["detail"]
    assert "sesame" not in str(found)


def test_on_a_fresh_machine_no_database_is_made_by_looking_for_one(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEDLEY_DATABASE_URL", raising=False)
    code, found = doctor()
    assert (code, found["database"]["health"]) == (0, "missing")
    assert not (home / "home").exists()


def test_credentials_are_found_where_the_clouds_own_tools_have_them(home: Path) -> None:
    environment = {"PATH": "/nowhere"}
    before = {check.name: check for check in of_accounts(environment, home)}
    assert {check.health for check in before.values()} == {Health.MISSING}
    assert all(check.detail for check in before.values())
    (home / ".aws").mkdir()
    (home / ".aws" / "credentials").write_text("[default]")
    after = {check.name: check for check in of_accounts({**environment, "RUNPOD_API_KEY": "sesame"}, home)}
    assert {name for name, check in after.items() if check.health is Health.OK} == {"cloud.aws", "cloud.runpod"}
    assert not any("sesame" in check.detail for check in after.values())


def test_every_extra_has_a_purpose_and_a_way_to_be_installed() -> None:
    found = {check.name: check for check in of_packages()}
    assert found.keys() == {f"extra.{extra}" for extra in PURPOSES}
    assert found["extra.serve"].health is Health.OK
    assert all("pip install" in check.detail for check in found.values() if check.health is Health.MISSING)
