"""What only a GPU can show is tried part by part, and what was broken off goes on."""

import json
from pathlib import Path

import pytest

from bench import gpu_all

DONE = ("json.tool", "--help")
FAILS = ("bench.no_such_module",)


def run(monkeypatch: pytest.MonkeyPatch, folder: Path, *more: str) -> int:
    monkeypatch.setattr("sys.argv", ["gpu_all", "--gpu", "H100", "--out", str(folder), *more])
    return gpu_all.main()


def test_a_part_that_is_done_is_not_done_again_and_one_that_failed_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(gpu_all, "PARTS", {"first": DONE, "second": FAILS})
    assert run(monkeypatch, tmp_path, "--only", "first,second") == 1
    before = json.loads((tmp_path / "done.json").read_text())
    assert {name: part["status"] for name, part in before.items()} == {"first": "ok", "second": "failed"}
    monkeypatch.setattr(gpu_all, "PARTS", {"first": FAILS, "second": DONE})
    assert run(monkeypatch, tmp_path, "--only", "first,second") == 0
    after = json.loads((tmp_path / "done.json").read_text())
    assert after["first"] == before["first"]
    report = (tmp_path / "report.md").read_text()
    assert "## first: ok" in report
    assert "## second: ok" in report


def test_without_time_nothing_is_begun(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(gpu_all, "PARTS", {"first": DONE})
    assert run(monkeypatch, tmp_path, "--only", "first", "--minutes", "0") == 1
    assert "## first: not tried" in (tmp_path / "report.md").read_text()


def test_every_part_is_a_module_that_is_there() -> None:
    root = Path(gpu_all.__file__).parents[1]
    for module, *_ in gpu_all.PARTS.values():
        assert root.joinpath(*module.split(".")).with_suffix(".py").exists()
