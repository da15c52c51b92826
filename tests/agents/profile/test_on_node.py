"""A node that measures itself prints whatever comes of it, and why where nothing does."""

import pytest
import torch

from agents.messages.to_profiler import MARK, Done, Failed, Machine, Measured, line, said_in
from agents.profile import __main__ as command
from agents.profile import on_node
from agents.profile.on_node import NodeSweep, measure_node

SWEEP = NodeSweep("torch", "path:/no/such/weights", "fp32", torch.device("cpu"), 1, 64, "none", None, 120.0)


def test_lines_are_read_behind_what_others_put_before_them_and_a_torn_one_says_nothing() -> None:
    said = (Failed("engine", "no room"), Done(1))
    log = "\n".join(["set-up", *(f"(medley-node, pid=3) {line(each)}" for each in said), line(Done(2))[:-3]])
    assert tuple(said_in(log)) == said
    assert tuple(said_in(f"{MARK}{{}}\n{MARK}[1]\n{MARK}")) == ()


def test_a_node_without_a_gpu_says_so_and_measures_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(on_node.torch.cuda, "is_available", lambda: False)
    asked = NodeSweep("torch", "hf:no/where", "bf16", torch.device("cuda"), 2, 64, "none", None, 60.0)
    assert measure_node(asked) == 1
    found, failed = said_in(capsys.readouterr().out)
    assert isinstance(found, Machine)
    assert found.device == "cpu"
    assert any(each.startswith("torch ") for each in found.releases)
    assert isinstance(failed, Failed)
    assert failed.part == "machine"


def test_its_program_stays_behind_its_last_line_until_that_was_passed_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    printed: list[tuple[float, int]] = []

    def sleep(seconds: float) -> None:
        printed.append((seconds, len(tuple(said_in(capsys.readouterr().out)))))

    monkeypatch.setattr(on_node.torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(command.time, "sleep", sleep)
    asked = ("--weights", "hf:no/where", "--hidden-size", "64", "--device", "cuda", "--linger-s", "7")
    monkeypatch.setattr(command.sys, "argv", ["agents.profile", "--dtype", "bf16", "node", *asked])
    assert command._main() == 1
    assert printed == [(7.0, 2)], "the machine, and why it is not measured"


def test_a_part_that_fails_is_named_with_its_last_words(capfd: pytest.CaptureFixture[str]) -> None:
    assert measure_node(SWEEP) == 1
    said = tuple(said_in(capfd.readouterr().out))
    assert not any(isinstance(each, Measured) for each in said)
    assert isinstance(said[-1], Failed)
    assert said[-1].part == "engine"
    assert "/no/such/weights" in said[-1].why


def test_the_second_of_a_pair_measures_nothing_else() -> None:
    second = NodeSweep("torch", "hf:a/b", "bf16", torch.device("cuda"), 1, 64, "second", ("10.0.0.7", 7), 60.0)
    (part,) = second.parts(second.meet, "10.0.0.8")
    assert part[0] == "pair"
    assert "--sends" in part
    first = NodeSweep("torch", "hf:a/b", "bf16", torch.device("cuda"), 1, 64, "first", None, 60.0)
    assert [part[0] for part in first.parts(("10.0.0.7", 7), "10.0.0.7")] == ["engine", "pipeline", "pair"]
