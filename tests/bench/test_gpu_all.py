"""What only a GPU can show is tried part by part, and what was broken off goes on."""

import json
import os
import select
from pathlib import Path

import pytest

from bench import gpu_all
from tests.conftest import VLLM_PYTHON

DONE = ("json.tool", "--help")
FAILS = ("bench.no_such_module",)


def run(monkeypatch: pytest.MonkeyPatch, folder: Path, *more: str) -> int:
    monkeypatch.setattr("sys.argv", ["gpu_all", "--gpu", "H100", "--device", "cpu", "--out", str(folder), *more])
    return gpu_all.main()


def statuses(folder: Path) -> dict[str, str]:
    return {name: part["status"] for name, part in json.loads((folder / "done.json").read_text()).items()}


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


def test_every_part_is_a_module_that_is_there_and_has_its_tests() -> None:
    root = Path(gpu_all.__file__).parents[1]
    for module, *_ in gpu_all.PARTS.values():
        assert module == "pytest" or root.joinpath(*module.split(".")).with_suffix(".py").exists()
    assert all((root / path).exists() for path in gpu_all.PROGRAMS)


def test_a_part_that_takes_too_long_is_ended_with_all_that_it_began(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "alive")
    alive = os.open(tmp_path / "alive", os.O_RDONLY | os.O_NONBLOCK)
    sleeper = "[sys.executable, '-c', 'import time; time.sleep(600)'], stdout=held, close_fds=False"
    program = f"held = open({str(tmp_path / 'alive')!r}, 'w')\nsubprocess.Popen({sleeper})\ntime.sleep(600)\n"
    (tmp_path / "long_part.py").write_text(f"import subprocess, sys, time\n{program}")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(gpu_all, "PARTS", {"long": ("long_part",)})
    assert run(monkeypatch, tmp_path / "out", "--only", "long", "--minutes", "0.06") == 1
    assert json.loads((tmp_path / "out" / "done.json").read_text())["long"]["status"] == "out of time"
    os.close(os.open(tmp_path / "alive", os.O_WRONLY))  # so that there was a writer, had the part not come to it
    readable, *_ = select.select([alive], [], [], 120)
    assert readable
    assert os.read(alive, 1) == b"", "its last writer is gone"
    os.close(alive)


def test_without_a_gpu_each_part_says_that_it_cannot_run_and_is_tried_again_with_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(gpu_all.torch.cuda, "is_available", lambda: False)
    every = ",".join(gpu_all.PARTS)
    assert run(monkeypatch, tmp_path, "--only", every, "--device", "cuda") == 1
    assert statuses(tmp_path) == dict.fromkeys(gpu_all.PARTS, "cannot run")
    report = (tmp_path / "report.md").read_text()
    assert report.count("finds no GPU here") == len(gpu_all.PARTS)
    monkeypatch.setattr(gpu_all, "PARTS", dict.fromkeys(gpu_all.PARTS, DONE))
    assert run(monkeypatch, tmp_path, "--only", every) == 0


def test_a_part_that_cannot_run_here_is_no_failure_of_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "unable.py").write_text("print('cannot run: there is one card')\nraise SystemExit(69)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(gpu_all, "PARTS", {"pairs": ("unable",)})
    assert run(monkeypatch, tmp_path / "out", "--only", "pairs") == 1
    assert statuses(tmp_path / "out") == {"pairs": "cannot run"}
    assert "there is one card" in (tmp_path / "out" / "report.md").read_text()


@pytest.mark.slow
@pytest.mark.needs("vllm")
def test_vllm_and_pairs_run_without_a_gpu_over_the_same_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MEDLEY_VLLM_PYTHON", str(VLLM_PYTHON))
    vllm = (*gpu_all.PARTS["vllm"], "--parts", "handed-over")  # its longest part, with two instances
    monkeypatch.setattr(gpu_all, "PARTS", {"vllm": vllm, "pairs": gpu_all.PARTS["pairs"]})
    code = run(monkeypatch, tmp_path, "--only", "vllm,pairs")
    report = (tmp_path / "report.md").read_text()
    assert code == 0, report
    for words in ("handed over: right", "over gloo", "the same tokens"):
        assert words in report
