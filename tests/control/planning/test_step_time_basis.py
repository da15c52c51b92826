"""Plans say of each GPU what its step times rest on and how far they may be off."""

from dataclasses import replace

import pytest

from control.planning.recipe import ListedRecipe, PipelineRecipe, Recipe
from control.planning.step_time_bases import step_time_bases
from control.planning.step_time_lines import step_time_lines
from templates_lib.apps.served_model import ServedModel
from templates_lib.cost.step_time_errors import load_step_time_errors
from templates_lib.load.shapes import load_shape
from templates_lib.models.catalogue import load_models
from templates_lib.values.hardware import node_config_from_id
from templates_lib.values.node_profile import NodeProfile, ProfileErrors
from templates_lib.values.plan import Plan
from templates_lib.values.settings import SloSplit
from templates_lib.values.slo import Slo
from templates_lib.values.step_time_basis import StepTimeBasis
from templates_lib.values.template import Software
from tests.control.cli.test_plan_output import plan
from tests.templates_lib.test_cost_measured import HAND_OFF, PIPELINE

CONFIGS = ("H100:1/n100", "L40S:1/n25", "L4:1/n10")
NODES = tuple(node_config_from_id(config) for config in CONFIGS)
MODEL = load_models()["qwen3-32b"]


def recipe(engine: str, *profiles: NodeProfile) -> Recipe:
    served = ServedModel("qwen", MODEL, Slo(900.0, 30.0), load_shape("azure-code"), engine=engine)
    return Recipe((PipelineRecipe((served,), NODES, (CONFIGS,), 2, 12.0, SloSplit.EVEN, profiles=profiles),))


def planned(engine: str) -> Plan:
    software = Software(MODEL.id, "r", MODEL.dtype, engine, "lockstep-v1", "qwen")
    instance = replace(plan().instances[0], model="qwen", nodes=dict.fromkeys(CONFIGS, 1), software=software)
    return replace(plan(), instances=(instance, instance))


def bases(engine: str, *profiles: NodeProfile) -> dict[str, StepTimeBasis]:
    found = step_time_bases(planned(engine), recipe(engine, *profiles))
    assert [each.gpu for each in found] == ["H100", "L4", "L40S"], "one of each, whatever the instances"
    return {each.gpu: each for each in found}


def test_a_gpu_with_deployments_is_judged_by_them_and_others_by_all_that_were_left_out() -> None:
    found, known = bases("vllm"), load_step_time_errors().engines["vllm"]
    assert found["H100"].tpot_error == known["H100"].estimated.gpu_out.tpot
    assert (found["H100"].judged_on, found["H100"].deployments) == ("H100", known["H100"].estimated.gpu_out.rows)
    assert (found["L40S"].judged_on, found["L40S"].tpot_error) == ("L40S", known["L40S"].estimated.gpu_out.tpot)
    assert (found["L4"].judged_on, found["L4"].ttft_error) == ("other GPUs", known["all"].estimated.gpu_out.ttft)


def test_an_engine_that_nobody_measured_is_judged_by_the_one_it_is_estimated_from() -> None:
    found = bases("torch")
    assert {each.judged_engine for each in found.values()} == {"vllm"}
    assert found["H100"].tpot_error == bases("vllm")["H100"].tpot_error


def test_a_profile_is_judged_by_its_own_steps() -> None:
    profile = NodeProfile(
        "s", "2026-11-26", "a machine", "torch", MODEL.id, MODEL.dtype, "L4:1/n10", cpu_cores=1.0, step_terms_s={},
        errors=ProfileErrors(9, 0.04, 0.2), pipeline=PIPELINE, hand_off=HAND_OFF,
    )  # fmt: skip
    found = bases("torch", profile)
    assert (found["L4"].source, found["L4"].tpot_error, found["L4"].judged_on) == ("measured", 0.04, "steps")
    assert found["L40S"].source == "estimated"


def test_templates_that_somebody_wrote_have_no_step_times() -> None:
    assert step_time_bases(planned("vllm"), Recipe((ListedRecipe((), ()),))) == ()
    assert step_time_bases(planned("vllm"), None) == ()


def test_lines_name_gpus_that_rest_on_the_same_together() -> None:
    h100, l4, l40s = step_time_bases(planned("torch"), recipe("torch"))
    lines = list(step_time_lines([h100, replace(l4, gpu="A10G"), l4, l40s]))
    assert [line.partition(":")[0] for line in lines] == ["torch on H100", "torch on A10G, L4", "torch on L40S"]
    assert all("estimated, ±" in line for line in lines)
    kernels = StepTimeBasis("H100", "vllm", "kernels", 0.2, 0.1, "H100", 139, "vllm")
    unknown = StepTimeBasis("X", "own", "estimated", None, None, "", 0, "")
    said = list(step_time_lines([kernels, unknown]))
    assert "±20% TTFT, ±10% TPOT" in said[0]
    assert "139" in said[0]
    assert [line.partition(":")[0] for line in said] == ["vllm on H100", "own on X"]
    assert "±" not in said[1]


@pytest.mark.parametrize("gpu", ["H100", "H200", "B200"])
def test_shipped_errors_are_of_the_gpus_that_plans_may_use(gpu: str) -> None:
    held_out = load_step_time_errors().engines["vllm"][gpu].estimated.gpu_out
    assert held_out.rows >= 20
    assert 0 < held_out.tpot < held_out.ttft < 1
