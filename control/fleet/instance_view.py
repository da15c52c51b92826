"""Instances as people look at them: what runs where, and how busy it is. Plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agents.messages.to_scheduler import LEGS
from control.diff.target import Target
from control.hub.gang import Gang, GangExecutor, GangPlace
from control.lifecycle.held_node import HeldNode, executor_load, scheduler_load
from control.lifecycle.node_load import NodeLoad
from templates_lib.values.instance import Instance


@dataclass(frozen=True, slots=True)
class NodeView:
    name: str
    """Empty: there is none (yet)."""
    config: str
    stage: int
    first_layer: int
    last_layer: int
    """Before the first one where it computes components of a graph."""
    weight: float
    """Share of its stage's requests."""
    kv_blocks: int
    cpu_share: float | None
    """Processors that its engine keeps busy; None: not heard of yet."""
    memory_mib: int | None
    last_heartbeat: str
    """ISO 8601; empty: never."""
    metrics: str
    """URL of its metrics, in Prometheus' format; empty: not heard of yet."""
    executor: str = ""
    """Whose part of the node this is; empty: its instance has one executor."""
    components: tuple[str, ...] = ()
    """Of a graph, which it computes; none: it has layers of a model."""
    devices: tuple[int, ...] = ()
    """Numbers of the node's devices that are its own; none: all."""


@dataclass(frozen=True, slots=True)
class ExecutorView:
    id: str
    component: str
    engine: str
    state: str
    """Of its scheduler; empty: not heard of (yet)."""
    running: int
    waiting: int
    kv_used: float | None


@dataclass(frozen=True, slots=True)
class InstanceView:
    id: str
    fleet: str
    model: str
    leg: str
    """`prefill`, `decode` or `whole` of a text model's instance; else empty. See `work`."""
    state: str
    state_since: str
    zone: str
    market: str
    template: str
    units_per_s: float
    """That it was planned to sustain, of all its work classes together."""
    usd_per_hour: float
    """That its plan reckoned with."""
    running: int
    waiting: int
    kv_used: float | None
    """Share of its scheduler's KV blocks; None: not heard of yet."""
    nodes: tuple[NodeView, ...]
    """Executor by executor."""
    work: dict[str, float] = field(default_factory=dict)
    """Units per second that it was planned to sustain, by work class."""
    executors: tuple[ExecutorView, ...] = ()
    """Where there are several."""


def instance_view(
    instance: Instance, wanted: Target | None, model: str, gang: Gang, held: Mapping[int, HeldNode]
) -> InstanceView:
    """Describe an instance. `wanted`: as its plan has it; None where that plan is gone. `model`: of its template."""
    load, work = scheduler_load(held), {} if wanted is None else dict(wanted.units_per_s)
    return InstanceView(
        id=instance.id,
        fleet=instance.fleet,
        model=model if wanted is None else wanted.model,
        leg=_leg(work),
        state=instance.state,
        state_since=instance.state_since,
        zone=instance.zone,
        market=instance.market,
        template=instance.template_id,
        units_per_s=sum(work.values()),
        usd_per_hour=0.0 if wanted is None else wanted.usd_per_hour,
        running=0 if load is None else load.running,
        waiting=0 if load is None else load.waiting,
        kv_used=None if load is None else load.kv_used,
        nodes=tuple(
            _node_view(place, held.get(place.slot), executor, is_alone=gang.is_of_one)
            for executor in gang.executors
            for place in executor.places
        ),
        work=work,
        executors=() if gang.is_of_one else tuple(_executor_view(executor, held) for executor in gang.executors),
    )


def _leg(work: Mapping[str, float]) -> str:
    phases = [work_class.rpartition("/")[2] for work_class in work]
    return next((leg.value for phase, leg in LEGS.items() if [phase] == phases), "")


def _executor_view(executor: GangExecutor, held: Mapping[int, HeldNode]) -> ExecutorView:
    load = executor_load(held.get(executor.places[0].slot), executor.id) or NodeLoad()
    what = executor.id, executor.component, executor.engine
    return ExecutorView(*what, load.scheduler, load.running, load.waiting, load.kv_used)


def _node_view(place: GangPlace, held: HeldNode | None, executor: GangExecutor, *, is_alone: bool) -> NodeView:
    name = "" if is_alone else executor.id
    load = executor_load(held, name)
    heard = None if held is None else held.last_heartbeat
    return NodeView(
        name="" if held is None else held.name,
        config=place.config,
        stage=place.stage,
        first_layer=place.first_layer,
        last_layer=place.first_layer + place.layers - 1,
        weight=place.weight,
        kv_blocks=place.kv_blocks,
        cpu_share=None if load is None else load.cpu_share,
        memory_mib=None if load is None else load.memory_mib,
        last_heartbeat="" if heard is None else heard.isoformat(),
        metrics="" if held is None or held.load is None else held.load.metrics,
        executor=name,
        components=() if executor.graph is None else executor.graph.components,
        devices=executor.devices,
    )
