"""Machines by their owner's label, from each cloud's own API: SkyPilot asks only for names that it has on record."""

from collections.abc import Callable

from control.cloud.skypilot.messages import EndMachine, Machine, SweepMachines
from control.cloud.skypilot.sdk import aws_machines, gcp_machines, runpod_machines

_LIST: dict[str, Callable[[SweepMachines], list[Machine]]] = {
    "aws": aws_machines.machines,
    "gcp": gcp_machines.machines,
    "runpod": runpod_machines.machines,
}
_END: dict[str, Callable[[Machine], None]] = {
    "aws": aws_machines.end,
    "gcp": gcp_machines.end,
    "runpod": runpod_machines.end,
}


def machines(sweep: SweepMachines) -> tuple[Machine, ...]:
    """List machines by name. Of clouds not in the table none: SkyPilot's records are all that is known of them."""
    listed = _LIST.get(sweep.cloud)
    return () if listed is None else tuple(sorted(listed(sweep), key=lambda machine: machine.name))


def end_machine(call: EndMachine) -> None:
    """One that is gone already is ended."""
    _END[call.cloud](call.machine)
