"""How a node starts the scheduler of an executor: alone, or as the engine of a whole model."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace as changed

from agents.messages.to_node import Run, RunScheduler, RunWhole, Share
from agents.node.scheduler_command import scheduler_command
from agents.node.settings import NodeSettings
from agents.node.worker_commands import WorkerCommand
from agents.scheduler.instance_file import read_instance_file
from agents.vllm_engine.__main__ import parser
from templates_lib.values.placement import ONLY
from templates_lib.values.speculation import Speculation
from tests.agents.node.test_worker_commands import CUDA, KEY

SCHEDULER = RunScheduler(((Share("node", 1.0, 4, 16, 24),),), 16, 256, 192, {KEY: "gateway"}, {KEY: "node"})
WHOLE = RunWhole("hf:acme/tiny@v1", "bfloat16", 0)
PYTHON = Path("/opt/vllm/bin/python")


def made(home: Path, settings: NodeSettings = CUDA, engine: str = "vllm", **of_run: object) -> WorkerCommand:
    run = changed(Run(ONLY, "chat", engine, SCHEDULER, whole=WHOLE), **of_run)
    settings = replace(settings, home=home, pythons={"vllm": PYTHON})
    return scheduler_command(run, SCHEDULER, "own", home / "key", settings)


def test_a_whole_model_runs_in_its_engines_python_on_all_devices_of_its_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    split = changed(WHOLE, shards=2, parts=2, whole_experts=True)
    command = made(tmp_path, whole=split)
    assert command.arguments[:3] == (str(PYTHON), "-m", "agents.vllm_engine")
    given = parser().parse_args(command.arguments[3:])
    assert (given.checkpoint, given.dtype, given.memory_mib) == ("hf:acme/tiny@v1", "bfloat16", None)
    assert (given.tensor_parallel, given.parts, given.whole_experts) == (2, 2, True)
    assert command.environment == {"CUDA_VISIBLE_DEVICES": "0,1,2,3"}
    layout = read_instance_file(given.instance).layout
    assert (layout.model, layout.stages[0][0].kv_blocks) == ("chat", 24)
    assert made(tmp_path, devices=(3, 1)).environment == {"CUDA_VISIBLE_DEVICES": "3"}
    with pytest.raises(ValueError, match="needs 4 devices"):
        made(tmp_path, whole=split, devices=(0, 1))


def test_an_instance_has_a_prefix_cache_unless_the_hub_says_no(tmp_path: Path) -> None:
    said = []
    run, settings = Run(ONLY, "chat", "torch", SCHEDULER), replace(CUDA, home=tmp_path)
    for one in (run, changed(run, prefix_cache=False)):
        scheduler_command(one, SCHEDULER, "own", tmp_path / "key", settings)
        said.append(read_instance_file(tmp_path / f"{ONLY}.json").prefix_cache)
    assert said == [True, False]


def test_an_instance_drafts_answers_as_the_hub_says(tmp_path: Path) -> None:
    run, settings = Run(ONLY, "chat", "torch", SCHEDULER, speculation=Speculation(2, 5)), replace(CUDA, home=tmp_path)
    told = msgspec.msgpack.decode(msgspec.msgpack.encode(run), type=Run)
    scheduler_command(told, SCHEDULER, "own", tmp_path / "key", settings)
    assert read_instance_file(tmp_path / f"{ONLY}.json").speculation == Speculation(2, 5)
    beyond = msgspec.msgpack.encode(run).replace(b"tokens\x05", b"tokens\x7f")
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(beyond, type=Run)


def test_on_a_cpu_it_has_the_nodes_threads_pace_and_memory(tmp_path: Path) -> None:
    settings = replace(CUDA, device="cpu", threads=2, pace=0.5)
    command = made(tmp_path, settings, whole=changed(WHOLE, memory_mib=300))
    given = parser().parse_args(command.arguments[3:])
    assert (given.threads, given.pace, given.memory_mib, command.environment) == (1, 1.0, 300, {})


def test_an_engine_of_components_is_told_which_with_its_devices_and_its_share_of_the_processors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    part = changed(WHOLE, components=("vision", "language"), together={"vision/t": 2, "language/t": 8})
    command = made(tmp_path, replace(CUDA, threads=8), whole=part, devices=(5,), processors=0.25)
    pairs = tuple(zip(command.arguments, command.arguments[1:], strict=False))
    assert ("--components", "vision,language") in pairs
    assert [each for option, each in pairs if option == "--together"] == ["language/t=8", "vision/t=2"]
    assert ("--threads", "2") in pairs
    assert command.environment == {"CUDA_VISIBLE_DEVICES": "5"}


def test_gateways_are_listened_to_at_the_published_port_and_nobody_else_is(tmp_path: Path) -> None:
    run = Run(ONLY, "chat", "vllm", SCHEDULER, whole=WHOLE)
    settings = replace(CUDA, home=tmp_path, pythons={"vllm": PYTHON})
    scheduler_command(run, SCHEDULER, "own", tmp_path / "key", settings, 7600)
    instance = read_instance_file(tmp_path / f"{ONLY}.json")
    assert (instance.bind, instance.bind_stages) == ("tcp://0.0.0.0:7600", "tcp://127.0.0.1:0")
    scheduler_command(
        run, SCHEDULER, "own", tmp_path / "key", replace(settings, overlay="fd00::2", interface="10.0.0.7")
    )
    instance = read_instance_file(tmp_path / f"{ONLY}.json")
    assert (instance.bind, instance.bind_stages) == ("tcp://[fd00::2]:0", "tcp://10.0.0.7:0"), (
        "activations stay outside"
    )


def test_a_scheduler_of_stages_runs_in_medleys_own_python(tmp_path: Path) -> None:
    command = made(tmp_path, engine="vllm-stage", whole=None)
    assert command.arguments[1:3] == ("-m", "agents.scheduler")
    assert command.arguments[0] != str(PYTHON)


def test_an_engine_that_is_not_installed_is_named_with_where_it_is_looked_for(tmp_path: Path) -> None:
    run = Run(ONLY, "chat", "vllm", SCHEDULER, whole=WHOLE)
    with pytest.raises(ValueError, match="no vllm: MEDLEY_VLLM_PYTHON"):
        scheduler_command(run, SCHEDULER, "own", tmp_path / "key", replace(CUDA, home=tmp_path))
    with pytest.raises(ValueError, match="which weights"):
        made(tmp_path, whole=None)
