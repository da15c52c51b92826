"""Instances as people look at them: what runs where, and how busy it is. Plain values."""

from collections.abc import Mapping
from dataclasses import dataclass

from control.fleet.wanted import Wanted
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
    state: str
    state_since: str
    zone: str
    market: str
    template: str
    units_per_s: float
    """That it was planned to sustain: tokens, or requests of a whole one."""
    usd_per_hour: float
    """That its plan reckoned with."""
    running: int
    waiting: int
    kv_used: float | None
    """Share of its scheduler's KV blocks; None: not heard of yet."""
    nodes: tuple[NodeView, ...]


def instance_view(
    instance: Instance, wanted: Wanted | None, model: str, gang: Gang, held: Mapping[int, HeldNode]
) -> InstanceView:
    """`wanted`: as its plan has it; None where that plan is gone. `model`: of its template."""
    load = scheduler_load(held)
    used = None if load is None or not load.kv_blocks else 1 - load.kv_blocks_free / load.kv_blocks
    return InstanceView(
        id=instance.id,
        fleet=instance.fleet,
        model=model if wanted is None else wanted.model,
        leg="" if wanted is None else wanted.leg,
        state=instance.state,
        state_since=instance.state_since,
        zone=instance.zone,
        market=instance.market,
        template=instance.template_id,
        units_per_s=0.0 if wanted is None else wanted.units_per_s,
        usd_per_hour=0.0 if wanted is None else wanted.usd_per_hour,
        running=0 if load is None else load.running,
        waiting=0 if load is None else load.waiting,
        kv_used=used,
        nodes=tuple(_node_view(gang, place, held.get(place)) for place in range(len(gang.places))),
    )


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
