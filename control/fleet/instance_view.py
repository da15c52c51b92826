"""Instances as people look at them: what runs where, and how busy it is. Plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from control.diff.target import Target
from control.hub.gang import Gang
from control.lifecycle.held_node import HeldNode, scheduler_load
from templates_lib.values.instance import Instance


@dataclass(frozen=True, slots=True)
class NodeView:
    name: str
    """Empty: there is none (yet)."""
    config: str
    stage: int
    first_layer: int
    last_layer: int
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
    work: dict[str, float] = field(default_factory=dict)
    """Units per second that it was planned to sustain, by work class."""


def instance_view(
    instance: Instance, wanted: Target | None, model: str, gang: Gang, held: Mapping[int, HeldNode]
) -> InstanceView:
    """`wanted`: as its plan has it; None where that plan is gone. `model`: of its template."""
    load, work = scheduler_load(held), {} if wanted is None else dict(wanted.units_per_s)
    used = None if load is None or not load.kv_blocks else 1 - load.kv_blocks_free / load.kv_blocks
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
        kv_used=used,
        nodes=tuple(_node_view(gang, place, held.get(place)) for place in range(len(gang.places))),
        work=work,
    )


def _leg(work: Mapping[str, float]) -> str:
    phases = [work_class.rpartition("/")[2] for work_class in work]
    return {"prefill": "prefill", "decode": "decode", "aggregated": "whole"}.get("+".join(phases), "")


def _node_view(gang: Gang, number: int, held: HeldNode | None) -> NodeView:
    place = gang.places[number]
    load = None if held is None else held.load
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
        metrics="" if load is None else load.metrics,
    )
