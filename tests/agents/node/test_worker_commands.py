"""Which workers a node starts, and on which of its devices."""

from dataclasses import replace
from pathlib import Path

import pytest
from msgspec.structs import replace as changed

from agents.channels.address import Address
from agents.messages.to_node import RunStage
from agents.node.settings import NodeSettings
from agents.node.worker_commands import WorkerCommand, worker_commands
from agents.stage.__main__ import _arguments as worker_arguments
from templates_lib.models.catalogue import load_models

HERE, KEY = "tcp://10.0.0.1:7000", "k" * 40
SETTINGS = NodeSettings(Path("/home"), Address(HERE, KEY), threads=8)
CUDA = replace(SETTINGS, device="cuda")


def made(tmp_path: Path, settings: NodeSettings = SETTINGS, **changes: object) -> tuple[WorkerCommand, ...]:
    run = RunStage(HERE, KEY, f"path:{tmp_path}", 10, 7, 50, "bfloat16", 0)
    return worker_commands("torch", changed(run, **changes), tmp_path / "key", settings, tmp_path / "meeting")


def option(command: WorkerCommand, name: str) -> list[str]:
    """Its values, in order."""
    given = command.arguments
    return [given[at + 1] for at, word in enumerate(given) if word == name]


def test_each_replica_is_cut_into_even_parts_the_larger_first(tmp_path: Path) -> None:
    commands = made(tmp_path, replicas=2, parts=3)
    ranges = [(option(c, "--worker"), option(c, "--first-layer"), option(c, "--layers")) for c in commands]
    cut = [("10", "3"), ("13", "2"), ("15", "2")]
    assert ranges == [([str(n)], [first], [layers]) for n, (first, layers) in enumerate([*cut, *cut])]
    assert {tuple(option(c, "--kv-blocks")) for c in commands} == {("50",)}


@pytest.mark.parametrize("dtype", sorted({model.dtype for model in load_models().values()}))
def test_a_worker_takes_the_data_types_of_the_catalogue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    (command,) = made(tmp_path, dtype=dtype)
    monkeypatch.setattr("sys.argv", ["agents.stage", *command.arguments[3:]])
    assert worker_arguments().dtype == dtype


def test_what_is_on_the_hub_each_worker_fetches_by_itself(tmp_path: Path) -> None:
    commands = made(tmp_path, weights="hf:acme/tiny@v1", parts=2)
    assert [option(command, "--checkpoint") for command in commands] == [["hf:acme/tiny@v1"]] * 2


@pytest.mark.parametrize(
    ("given", "visible"),
    [(None, ["0,1", "2,3", "4,5", "6,7"]), ("GPU-a,GPU-b,4,5,6,7,8, 9", ["GPU-a,GPU-b", "4,5", "6,7", "8,9"])],
)
def test_every_worker_has_devices_of_its_own_and_sees_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str | None, visible: list[str]
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if given is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", given)
    commands = made(tmp_path, CUDA, shards=2, replicas=2, parts=2)
    assert [command.environment for command in commands] == [{"CUDA_VISIBLE_DEVICES": each} for each in visible]
    assert {tuple(option(command, "--device")) for command in commands} == {("cuda:0", "cuda:1")}


def test_a_node_with_too_few_devices_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2")
    with pytest.raises(ValueError, match="worker 1 needs 4 devices of this node, and CUDA_VISIBLE_DEVICES is '0,1,2'"):
        made(tmp_path, CUDA, shards=2, replicas=2)


def test_workers_on_a_cpu_share_its_threads_pace_and_memory(tmp_path: Path) -> None:
    (one,) = made(tmp_path, replace(SETTINGS, threads=2, pace=0.75), memory_mib=100)
    assert (option(one, "--threads"), option(one, "--pace"), option(one, "--memory-mib")) == (["2"], ["0.75"], ["100"])
    two, _ = made(tmp_path, replace(SETTINGS, threads=2, pace=0.75), memory_mib=100, parts=2)
    assert (option(two, "--threads"), option(two, "--pace"), option(two, "--memory-mib")) == (["1"], ["0.75"], ["50"])
    four, *_ = made(tmp_path, replace(SETTINGS, threads=2, pace=1.0), replicas=2, parts=2)
    assert (option(four, "--threads"), option(four, "--pace"), four.environment) == (["1"], ["1.0"], {})


def test_each_part_meets_the_same_part_of_other_replicas_where_they_share_experts(tmp_path: Path) -> None:
    apart, joint = made(tmp_path, replicas=2, parts=2), made(tmp_path, replicas=2, parts=2, joint=True)
    assert not any("--experts-store" in command.arguments for command in apart)
    told = [(option(c, "--replica"), option(c, "--replicas"), option(c, "--experts-store")) for c in joint]
    stores = [[str(tmp_path / "meeting" / f"part-{part}")] for part in (0, 1)]
    assert told == [([replica], ["2"], store) for replica in ("0", "1") for store in stores]


def test_more_parts_than_layers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="7 layers cannot be cut into 8 parts"):
        made(tmp_path, parts=8)
