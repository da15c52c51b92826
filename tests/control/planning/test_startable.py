"""A plan for an engine that cannot run a model does not come about, and what nodes cannot start yet is said."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import UNSET

from control.allocator import solve
from control.checker import check, claims_of
from control.fleet_file.problem import SpecError
from control.planning.startable import never_started, not_startable
from control.planning.world import read_world
from policies.strategy import single_node_replicas
from templates_lib.models.catalogue import load_models
from templates_lib.values.engines import start_up_minutes
from templates_lib.values.settings import Settings
from templates_lib.values.speculation import Speculation
from tests import factories as make
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
    planned_only |= {app.name for app in world.fleet.graph_apps if app.name not in world.fleet.app_runs}
    elsewhere = {offer.cloud for offer in world.quotes.offers} - {"local"}
    planned_only |= {"policy.units"} if world.fleet.sharing and elsewhere else set()
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


def test_a_model_is_not_drafted_where_an_engine_that_may_serve_it_verifies_no_drafts(tmp_path: Path) -> None:
    drafting = OWN.replace("    slo:", "    speculation: {ngram: 2, tokens: 4}\n    slo:")
    with pytest.raises(SpecError) as caught:
        world_of(tmp_path, own(tmp_path, drafting))
    (problem,) = caught.value.problems
    assert problem.line == 7
    assert all(part in problem.message for part in ("engine vllm", "`engine`", "torch"))
    on_torch = drafting.replace("    slo:", "    engine: torch\n    slo:")
    (served,) = world_of(tmp_path, own(tmp_path, on_torch)).recipe.served
    assert served.speculation == Speculation(2, 4)


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


def test_the_time_to_install_an_engine_is_part_of_the_start_up_of_its_own_templates(tmp_path: Path) -> None:
    installing, compiling = start_up_minutes("vllm"), start_up_minutes("torch")
    assert installing > compiling > 0
    settings = world_of(tmp_path, own(tmp_path, f"{OWN}policy: {{startup_minutes: 1}}\n")).fleet.settings
    assert [settings.startup_minutes_of(name) - 1 for name in ("torch", "vllm", "")] == pytest.approx(
        [compiling, installing, installing]
    )
    on_torch = OWN.replace("    slo:", "    engine: torch\n    slo:")
    settings = world_of(tmp_path, own(tmp_path, on_torch)).fleet.settings
    assert settings.startup_minutes_of("") == pytest.approx(settings.startup_minutes + compiling)


HOSTS = """\
  - cloud: owned
    hosts:
      - name: big
        address: 192.0.2.7
        user: me
        host_key: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHqS6YkqzHzdbqVnFZ0lqZLmzZ5v3q0m7n0o5p6q7r8s
        node_config: "CONFIG"
        zone: rack
"""


def test_a_machine_that_is_rented_and_owned_has_templates_of_both_engines_each_where_it_is_started(
    tmp_path: Path,
) -> None:
    rented = world_of(tmp_path, own(tmp_path))
    config = min(config.id for config in rented.recipe.nodes)
    world = world_of(tmp_path, own(tmp_path, OWN + HOSTS.replace("CONFIG", config)))
    (served,) = world.recipe.served
    assert {each.engine for each, nodes in world.recipe.by_engine(served) if config in {n.id for n in nodes}} == {
        *("torch", "vllm")
    }
    assert world.recipe.partly == {"torch": (), "vllm": (config,)}
    templates = {"v": ({config: 1}, [{"mine/prefill": 1.0}]), "t": ({config: 1}, [{"mine/prefill": 1.0}])}
    library = make.library(served.work_classes(), templates, {"v": "vllm", "t": "torch"})
    snapshot = world.snapshot("now", library)
    assert [snapshot.may_be_at(cloud, "mine", "vllm") for cloud in ("aws", "owned")] == [True, False]
    assert [snapshot.may_be_at(cloud, "mine", "torch") for cloud in ("aws", "owned")] == [True, True]
    assert snapshot.may_be_at("owned", "another", "vllm")
    assert rented.snapshot("now", library).barred is UNSET


@pytest.mark.parametrize("engines", [{"v": "vllm", "t": "torch"}, {"v": "vllm"}])
def test_plans_have_each_engine_where_it_is_started(engines: dict[str, str]) -> None:
    """By the cheaper engine where both may be, and by none where its only one may not: that demand is unmet."""
    templates = {name: ({"L4:1/n10": 1}, [{"m/serve": 10.0 + (name == "v")}]) for name in engines}
    snapshot = make.snapshot(
        [make.offer("L4:1/n10", "aws/a", 1.0, 1), make.offer("L4:1/n10", "owned/rack", 0.1, 1)],
        [make.route("m", {"m/serve": 1.0})],
        {"m": 20.0},
        settings=Settings(utilisation_cap=1.0),
        barred={"m": {"vllm": ("owned",)}},
    )
    library = make.library([make.work_class("m/serve")], templates, engines)
    plan = solve(snapshot, library)
    assert check(plan, snapshot, claims_of(library, templates)) == ()
    found = {each.zone.partition("/")[0]: each.engines for each in plan.instances}
    assert found == {"aws": "vllm"} | ({"owned": "torch"} if "t" in engines else {})
    assert bool(plan.unmet) == ("t" not in engines)
    moved = replace(plan, instances=tuple(replace(each, zone="owned/rack") for each in plan.instances))
    assert "engine" in {violation.rule for violation in check(moved, snapshot)}
    homogeneous = single_node_replicas(snapshot, library)["m/serve"]
    assert {(each.zone, library.template_id(each.template)) for each in homogeneous} == {
        *(("aws/a", name) for name in engines),
        *(("owned/rack", name) for name in engines if name == "t"),
    }
