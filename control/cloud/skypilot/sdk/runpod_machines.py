"""RunPod's pods. It has no labels: a pod is ours when its name is one that SkyPilot gives this owner's machines."""

from typing import Any

import runpod

from control.cloud.skypilot.labels import OWNER_LABEL
from control.cloud.skypilot.messages import Machine, SweepMachines

_STOPPED = ("EXITED", "PAUSED")


def machines(sweep: SweepMachines) -> list[Machine]:
    return [machine for pod in runpod.get_pods() if (machine := _machine(pod, sweep)) is not None]


def end(machine: Machine) -> None:
    """The API answers alike for a pod that is gone."""
    runpod.terminate_pod(machine.provider_id)


def _machine(pod: dict[str, Any], sweep: SweepMachines) -> Machine | None:
    name, found, rest = str(pod.get("name", "")).rpartition(f"-{sweep.user_hash}-")
    if not found or rest not in ("head", "worker"):
        return None
    gpu = (pod.get("machine") or {}).get("gpuDisplayName", "")
    stopped = pod.get("desiredStatus") in _STOPPED
    return Machine(name, str(pod["id"]), "", str(gpu), stopped, {OWNER_LABEL: sweep.owner})
