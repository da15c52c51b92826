"""Take an instance that does not serve (any more) to its end."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from control.cloud.errors import CloudError
from control.db.instances import PostgresInstances
from control.executor.nodes import NodeExecutor
from control.lifecycle.event import Event, EventKind
from control.lifecycle.state import InstanceState
from templates_lib.values.instance import Instance

_AT_ONCE = 8
"""Calls to clouds side by side: a gang is ended in the time of its slowest node."""


@dataclass(frozen=True, slots=True)
class WoundDown:
    """`left` says of each node that may still be billed what stands in the way; when empty, it is terminated."""

    instance: Instance
    left: dict[str, str]


def wind_down(instances: PostgresInstances, nodes: NodeExecutor, instance_id: str, reason: str) -> WoundDown:
    """Release the instance, give its nodes back, and record that it has ended once no node is left.

    A ready instance has to be drained first and is refused: ValueError. Call it again while nodes are left; one that
    is terminated already stays so.
    """
    instances.apply(instance_id, Event(EventKind.RELEASE, reason), nodes.clock())
    instance = instances.load(instance_id)
    if instance.state == InstanceState.TERMINATED:  # an earlier call ended it
        return WoundDown(instance, {})
    if instance.state != InstanceState.TERMINATING:
        raise ValueError(f"instance {instance_id} is {instance.state}: drain it before its nodes are given back")

    def give_back(name: str, cloud: str) -> str:
        try:
            return "" if nodes.give_back(name, cloud) else "the cloud still lists it"
        except CloudError as error:
            return str(error)

    # An offer's key begins with its cloud.
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        tries = {node.id: pool.submit(give_back, node.id, node.offer.partition("/")[0]) for node in instance.nodes}
    left = {name: text for name, tried in tries.items() if (text := tried.result())}
    if not left:
        instances.apply(instance_id, Event(EventKind.NODES_GONE, "no node is left"), nodes.clock())
    return WoundDown(instances.load(instance_id), left)
