"""Profiles that are given instead of measured: of a processor of 2026, as `medley profile run` found it."""

from pathlib import Path

from control.cloud.local.kinds import LocalMachine
from control.planning.local_market import local_config, local_gpu
from control.planning.world import read_world
from control.profiles.store import FORMAT, ProfileStore, StoredProfile
from control.profiles.subject import local_subject
from templates_lib.cost.hand_off_cost import HandOffCost
from templates_lib.cost.pipeline_cost import PipelineCost
from templates_lib.models.model_spec import ModelSpec
from templates_lib.values.node_profile import NodeProfile, ProfileErrors

CORE_S = {
    "step": 5e-4, "token": 0.0, "layer": 6e-4, "layer_few_rows": 3e-4, "layer_row": 8e-5,
    "layer_prompt_attention": 5e-8, "layer_request": 1e-5, "layer_decode_attention": 4e-7,
    "head": 3e-3, "head_few_rows": 4e-3, "head_row": 6e-4,
}  # fmt: skip
"""Of SmolLM2-135M on one core."""


def stored(machine: LocalMachine, model: ModelSpec, times: float = 1.0) -> StoredProfile:
    """`times`: how long steps take by it, of what they really take."""
    subject = local_subject(machine, model, "torch")
    profile = NodeProfile(
        subject.fingerprint, "2026-11-21", subject.machine, "torch", model.id, model.dtype, local_config(machine).id,
        machine.cpu_cores, {name: times * seconds / machine.cpu_cores for name, seconds in CORE_S.items()},
        ProfileErrors(9, 0.05, 0.2), PipelineCost(8e-4, 4e-6, 1e-6, 5e-4, 3e-4, 0.01),
        HandOffCost(1e-9, 5e-10),
    )  # fmt: skip
    return StoredProfile(FORMAT, local_gpu(machine), local_config(machine), profile, ())


def give_profiles(home: Path, spec: Path, times: float = 1.0) -> None:
    """Of all local nodes of a spec: whoever plans it in this home has nothing to measure first."""
    world = read_world(spec)
    for served in world.recipe.served:
        for machine in world.fleet.machines:
            ProfileStore(home / "profiles").put(stored(machine, served.model, times))
