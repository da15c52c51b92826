"""The fast loop's body: bring what runs back in line with what is on record, without planning anything anew."""

from dataclasses import dataclass
from datetime import timedelta

from control.db.instances import PostgresInstances
from control.db.nodes import PostgresNodes
from control.executor.nodes import NodeExecutor
from control.executor.recover import Recovered, recover
from control.executor.wind_down import WoundDown, wind_down
from control.lifecycle.advance import Transition
from control.lifecycle.patience import Patience, overdue
from control.lifecycle.state import InstanceState

_ON_THEIR_WAY_OUT = (InstanceState.FAILED, InstanceState.TERMINATING)


@dataclass(frozen=True, slots=True)
class Repaired:
    recovered: Recovered
    overdue: tuple[Transition, ...]
    wound_down: tuple[WoundDown, ...]


def repair(
    fleet: str,
    instances: PostgresInstances,
    held_nodes: PostgresNodes,
    executor: NodeExecutor,
    patience: Patience,
    in_flight: timedelta,
) -> Repaired:
    """Compare with the clouds, time out what takes too long, and give back what has failed.

    `in_flight` as for `recover`. Run it every few seconds, and once, with zero, when a control plane starts.
    """
    recovered = recover(instances, held_nodes, executor, in_flight)
    late: list[Transition] = []
    for instance in instances.of_fleet(fleet):
        event = overdue(instance, patience, executor.clock())
        if event is not None:
            # May have moved on since: a refusal then is right.
            step = instances.apply(instance.id, event, executor.clock())
            late += [step] if isinstance(step, Transition) else []
    wound_down = tuple(
        wind_down(instances, executor, instance.id, "it has failed")
        for instance in instances.of_fleet(fleet)
        if instance.state in _ON_THEIR_WAY_OUT
    )
    return Repaired(recovered, tuple(late), wound_down)
