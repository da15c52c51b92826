"""Compute Engine instances by label, in all zones of the project that the credentials are of."""

import google.auth
from google.api_core.exceptions import NotFound
from google.cloud import compute_v1

from control.cloud.skypilot.labels import NODE_LABEL, OWNER_LABEL
from control.cloud.skypilot.messages import Machine, SweepMachines

_ENDING = ("STOPPING", "SUSPENDING")
_STOPPED = ("TERMINATED", "SUSPENDED", *_ENDING)
"""GCP's TERMINATED is a stopped machine, whose disks are billed."""


def machines(sweep: SweepMachines) -> list[Machine]:
    credentials, project = google.auth.default()
    return machines_of(compute_v1.InstancesClient(credentials=credentials), project or "", sweep.owner)


def machines_of(client: compute_v1.InstancesClient, project: str, owner: str) -> list[Machine]:
    request = compute_v1.AggregatedListInstancesRequest(project=project, filter=f"labels.{OWNER_LABEL}={owner}")
    return [
        Machine(
            name=instance.labels.get(NODE_LABEL, instance.name),
            provider_id=instance.name,
            place=f"{project}/{zone.rpartition('/')[2]}",
            instance_type=instance.machine_type.rpartition("/")[2],
            stopped=instance.status in _STOPPED,
            labels=dict(instance.labels),
        )
        for zone, found in client.aggregated_list(request=request)
        for instance in found.instances
    ]


def end(machine: Machine) -> None:
    credentials, _ = google.auth.default()
    end_with(compute_v1.InstancesClient(credentials=credentials), machine)


def end_with(client: compute_v1.InstancesClient, machine: Machine) -> None:
    project, _, zone = machine.place.partition("/")
    try:
        client.delete_unary(project=project, zone=zone, instance=machine.provider_id)
    except NotFound:
        return
