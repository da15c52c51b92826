"""A shared unit as a template: what its node runs, in a form that is stored, and what it sustains.

Its identity are the node, the members with their software, the memory that they share and the dispatch policy. Rates,
lengths and quotas are no part of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from templates_lib.ports.cost_model import Parallel
from templates_lib.throughput.request_cache import BLOCK_TOKENS
from templates_lib.units.enumeration import EnumeratedUnit
from templates_lib.units.unit_capacity import ENGINE, LARGEST_BATCH, ServedMember, token_bytes
from templates_lib.values.placement import (
    UNIT,
    UNIT_VERSION,
    Executor,
    Placement,
    Share,
    Stage,
    StageNodes,
    UnitPlacement,
)
from templates_lib.values.template import Capacity, Limit, OperatingPoint, ServingTemplate, Software, template_id
from templates_lib.values.work import Phase, Unit, WorkClass

DISPATCH = "in-turn-v1"
"""Capacity is counted with jobs one after the other."""
CHUNK_TOKENS = 2048
"""Prompt tokens of a prefill job at most."""


class MemberRecord(msgspec.Struct, array_like=True, frozen=True):
    """A member as it is stored."""

    name: str
    model: str
    revision: str
    dtype: str
    layers: int
    kv_blocks: int
    """Blocks of the pool that it may hold at most: all of them."""
    requests_per_s: float
    """Of it without the others."""
    uses: tuple[float, ...]
    """What one request per second uses of each limit."""


class UnitRecord(msgspec.Struct, array_like=True, frozen=True):
    """All that makes a template with its capacity."""

    engine: str
    dispatch: str
    config: str
    gpus: int
    pool_bytes: int
    cost_model_fingerprint: str
    members: tuple[MemberRecord, ...]

    @property
    def software(self) -> Software:
        """Name the models and revisions of the members in their order; their types are in the placement."""
        models, revisions, names = (
            "+".join(getattr(member, field) for member in self.members) for field in ("model", "revision", "name")
        )
        return Software(models, revisions, "", self.engine, self.dispatch, names)

    @property
    def placement(self) -> Placement:
        """An executor for each member, split over all of the GPUs of the node."""
        executors = []
        for number, member in enumerate(self.members):
            own = (self.config, 1, 1.0, self.gpus, 1, 1, 1, LARGEST_BATCH, CHUNK_TOKENS, member.kv_blocks)
            stages = (Stage(0, member.layers, True, True, (StageNodes(*own),)),)
            executors.append(Executor(f"m{number}", member.name, self.engine, member.dtype, stages, ((0,),), Share()))
        unit = UnitPlacement(tuple(executors), self.pool_bytes)
        return Placement(UNIT, UNIT_VERSION, msgspec.to_builtins(unit))

    def template(self, nodes: dict[str, int]) -> ServingTemplate:
        s = self.software
        parts = (s.model, s.model_revision, s.dtype, s.engine, s.dispatch, nodes, self.placement, s.served_as)
        return ServingTemplate(template_id(*parts), *parts)

    @property
    def limits(self) -> tuple[Limit, ...]:
        rows = zip(*(member.uses for member in self.members), strict=True)
        names = [class_of(member.name) for member in self.members]
        return tuple(dict(zip(names, row, strict=True)) for row in rows)


@dataclass(frozen=True, slots=True, eq=False)
class UnitTemplate:
    """A unit of known models on a node."""

    unit: EnumeratedUnit
    record: UnitRecord

    @property
    def id(self) -> str:
        return self.record.template({self.unit.node.id: 1}).id


def unit_template(unit: EnumeratedUnit, members: Mapping[str, ServedMember], fingerprint: str) -> UnitTemplate:
    """Make the template of a unit. `members` by name; `fingerprint` of the cost model."""
    capacity, node = unit.capacity, unit.node
    rows = zip(unit.members, capacity.most.tolist(), capacity.time.tolist(), capacity.kv.tolist(), strict=True)
    found = []
    for name, most, time, kv in rows:
        model = members[name].model
        blocks = int(capacity.pool_bytes // (BLOCK_TOKENS * token_bytes(model, Parallel(tp=node.gpu_count))))
        found.append(MemberRecord(name, model.id, model.revision, model.dtype, model.layers, blocks, most, (time, kv)))
    pool = int(capacity.pool_bytes)
    return UnitTemplate(unit, UnitRecord(ENGINE, DISPATCH, node.id, node.gpu_count, pool, fingerprint, tuple(found)))


def read_unit_record(record: bytes, nodes: dict[str, int]) -> tuple[ServingTemplate, Capacity]:
    """The template of `nodes` {configuration: count} in `record`. Raises msgspec.DecodeError for other bytes.

    The objectives are those of its members, one by one; nothing is certified of requests that wait."""
    found = msgspec.msgpack.decode(record, type=UnitRecord)
    template = found.template(nodes)
    point = OperatingPoint({class_of(member.name): member.requests_per_s for member in found.members})
    return template, Capacity(template.id, (point,), "", 0.0, 0.0, found.cost_model_fingerprint, limits=found.limits)


def class_of(member: str) -> str:
    """Return the id of the work class of a member's requests."""
    return f"{member}/{Phase.AGGREGATED.value}"


def work_class_of(member: ServedMember) -> WorkClass:
    """Whole requests of a member, in the mean of its lengths."""
    shape = member.shape_id or f"{member.lengths.prompt:g}+{member.lengths.output:g}"
    own = class_of(member.name), member.name, Phase.AGGREGATED.value, Unit.INVOCATION
    return WorkClass(*own, shape, member.tpot_s * 1e3)
