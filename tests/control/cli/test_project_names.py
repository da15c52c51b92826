"""`--project` takes what the API takes."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from control.cli.main import app


@pytest.mark.parametrize("name", ["", "a b", "-a", "a/b", "é", "a\n", "a" * 64])
@pytest.mark.parametrize("command", [["apply", "-f", "fleet.yaml"], ["token", "create", "me"]])
def test_a_project_of_another_form_is_refused_before_anything_is_read(
    command: list[str], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEDLEY_HOME", str(tmp_path / "home"))
    found = CliRunner().invoke(app, [*command, f"--project={name}"])
    assert found.exit_code == 1
    assert f"{name!r} is no name of a project. Up to 63 letters, digits" in found.stderr.replace("\n", "")
    assert not (tmp_path / "home").exists()
