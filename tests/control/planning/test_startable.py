"""A plan for an engine that cannot run a model does not come about, and what nodes cannot start yet is said."""

import json
from pathlib import Path

import pytest

from control.fleet_file.problem import SpecError
from control.planning.startable import never_started, not_startable
from control.planning.world import read_world
from templates_lib.models.catalogue import load_models
from templates_lib.values.engines import environments
from tests.control.planning.worlds import world_of

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))
LLAMA = {
    "model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 4, "vocab_size": 1000,
    "num_attention_heads": 16, "num_key_value_heads": 4,
}  # fmt: skip
FP8_CACHES = {"quantization_config": {"quant_method": "fp8", "kv_cache_scheme": {"num_bits": 8}}}
OWN = """\
apiVersion: medley/v1
kind: Fleet
name: small
models:
  - model: own/config.json
    name: mine
    slo: {ttft_ms: 900, tpot_ms: 30, keep: throughput}
    workload: azure-code
    demand: {requests_per_s: 2}
clouds:
  - cloud: aws
    regions: [us-east-2]
    gpus: [L4]
"""


def own(folder: Path, text: str = OWN, **config: object) -> str:
    (folder / "own").mkdir(exist_ok=True)
    (folder / "own" / "config.json").write_text(json.dumps(LLAMA | config))
    return text


@pytest.mark.parametrize(
    ("config", "named", "other"),
    [
        ({"model_type": "mamba"}, "'mamba'", "vllm-stage"),
        ({"quantization_config": {"quant_method": "mxfp4"}}, "mxfp4", "vllm-stage"),
    ],
)
def test_a_model_that_its_engine_does_not_run_is_an_error_of_the_line(
    tmp_path: Path, config: dict[str, object], named: str, other: str
) -> None:
    with pytest.raises(SpecError) as caught:
        world_of(tmp_path, own(tmp_path, **config))
    (problem,) = caught.value.problems
    assert problem.line == 5  # the model: the engine is the one that is taken where none is named
    assert all(part in problem.message for part in ("model mine", "engine torch", named, f"`engine: {other}`"))
    planned_only = OWN.replace("    slo:", "    engine: vllm-stage\n    slo:")
    assert world_of(tmp_path, own(tmp_path, planned_only, **config)).never_started
    on_torch = OWN.replace("    slo:", "    engine: torch\n    slo:")
    with pytest.raises(SpecError) as caught:
        world_of(tmp_path, own(tmp_path, on_torch, **config))
    assert caught.value.problems[0].line == 7  # what names it


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_examples_say_what_of_them_nodes_cannot_start(example: Path) -> None:
    world = read_world(example)
    planned_only = {served.name for served in world.recipe.served if served.engine == "vllm-stage"}
    planned_only |= {app.name for app in world.fleet.graph_apps}
    assert planned_only == {name for name in planned_only if any(name in note for note in world.notes)}
    assert bool(world.never_started) == bool(planned_only)


@pytest.mark.parametrize("quantisation", [{"quant_method": "gptq", "bits": 4}, {"quant_algo": "NVFP4"}])
def test_quantised_checkpoints_run_on_the_default_engine(tmp_path: Path, quantisation: dict[str, object]) -> None:
    assert not world_of(tmp_path, own(tmp_path, quantization_config=quantisation)).never_started


def test_the_catalogue_runs_on_the_default_engine(tmp_path: Path) -> None:
    for name in load_models():
        text = OWN.replace("own/config.json", name).replace("name: mine", f"name: {name}")
        assert not world_of(tmp_path, text).never_started


def test_a_model_that_some_cloud_starts_is_never_said_not_to_start(tmp_path: Path) -> None:
    served = world_of(
        tmp_path, own(tmp_path, OWN.replace("    slo:", "    engine: vllm-stage\n    slo:"))
    ).recipe.served
    assert not_startable(served, ["local"]) == ()
    (why,) = not_startable(served, ["aws", "local"])
    assert all(part in why for part in ("nodes of aws have no engine vllm-stage", "mine", "torch, vllm"))
    assert never_started(served, ["aws", "local"]) == ()
    assert never_started(served, ["aws", "gcp"]) != ()


def test_whole_models_of_vllm_are_planned_in_phases_whose_kv_caches_it_hands_over(tmp_path: Path) -> None:
    on_vllm = OWN.replace("    slo:", "    engine: vllm\n    slo:")
    assert not world_of(tmp_path, own(tmp_path, on_vllm)).never_started
    scheme = {"quant_method": "fp8", "kv_cache_scheme": {"num_bits": 8}}
    with pytest.raises(SpecError) as caught:
        world_of(tmp_path, own(tmp_path, on_vllm, quantization_config=scheme))
    (problem,) = caught.value.problems
    assert problem.line == 7
    assert all(part in problem.message for part in ("model mine", "engine vllm", "`disaggregated: false`"))
    alone = on_vllm.replace("    demand:", "    disaggregated: false\n    aggregated: true\n    demand:")
    world = world_of(tmp_path, own(tmp_path, alone, quantization_config=scheme))
    assert not world.never_started
    awq = {"quantization_config": {"quant_method": "awq", "bits": 4}}
    assert not world_of(tmp_path, own(tmp_path, alone, **awq)).never_started
    assert never_started(world.recipe.served, ["local"]) != ()


@pytest.mark.parametrize(
    ("more", "config", "engines"),
    [
        ("", {}, ["vllm", "torch"]),
        ("    engine: torch\n", {}, ["torch"]),
        ("    engine: vllm\n", {}, ["vllm"]),
        # Caches of fp8, which vLLM does not hand over, and torch widens.
        ("", FP8_CACHES, ["torch"]),
        ("    disaggregated: false\n    aggregated: true\n", FP8_CACHES, ["vllm", "torch"]),
    ],
)
def test_a_model_is_served_by_the_engine_that_is_named_or_by_all_that_go_together(
    tmp_path: Path, more: str, config: dict[str, object], engines: list[str]
) -> None:
    world = world_of(tmp_path, own(tmp_path, OWN.replace("    demand:", f"{more}    demand:"), **config))
    (served,) = world.recipe.served
    assert [each.engine for each in served.by_engine()] == engines
    assert [each.engine for each, nodes in world.recipe.by_engine(served) if nodes] == engines
    assert world.notes == world.never_started == ()


def test_own_machines_and_nodes_of_this_machine_run_what_is_started_there(tmp_path: Path) -> None:
    text = own(
        tmp_path,
        OWN + "  - {cloud: local, kinds: [{name: n, cpu_cores: 1, memory_mib: 4000, stock: 1, usd_per_hour: 0.1}]}\n",
    )
    world = world_of(tmp_path, text)
    (served,) = world.recipe.served
    nodes = {each.engine: {node.gpu for node in nodes} for each, nodes in world.recipe.by_engine(served)}
    assert nodes["vllm"] == {"L4"}
    assert nodes["torch"] > nodes["vllm"]
    assert world.never_started == world.notes == ()
    experts = {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2}
    world = world_of(tmp_path, own(tmp_path, text, **experts))  # which vLLM alone runs
    (served,) = world.recipe.served
    assert [({node.gpu for node in nodes}, each.engine) for each, nodes in world.recipe.by_engine(served)] == [
        ({"L4"}, "vllm")
    ]
    assert world.never_started == ()
    assert any("nodes of local" in note and "mine" in note for note in world.notes)


def test_the_time_to_install_an_engine_is_part_of_the_start_up_that_is_planned(tmp_path: Path) -> None:
    on_torch, on_vllm = (OWN.replace("    slo:", f"    engine: {name}\n    slo:") for name in ("torch", "vllm"))
    minutes = [
        world_of(tmp_path, own(tmp_path, text)).fleet.settings.startup_minutes
        for text in (on_torch, on_vllm, f"{on_vllm}policy: {{startup_minutes: 1}}\n")
    ]
    installing = environments(["vllm"])["vllm"].minutes
    assert [minutes[1] - minutes[0], minutes[2]] == [installing, 1 + installing]
    assert installing > 0
