"""Units as a library that a planner reads. It is made in memory: no store keeps limits, and no node runs units yet."""

import hashlib
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from templates_lib.units.enumeration import EnumeratedUnit
from templates_lib.units.unit_capacity import ServedMember
from templates_lib.values.library import Library
from templates_lib.values.template import Limit
from templates_lib.values.work import Phase, Unit, WorkClass

DISPATCH = "in-turn-v1"
"""Capacity is counted with jobs one after the other."""
ENGINE = "torch"


def work_class_of(member: ServedMember) -> WorkClass:
    """Whole requests of a member, in the mean of its lengths."""
    lengths = member.lengths
    shape = f"{lengths.prompt:g}+{lengths.output:g}"
    return WorkClass(f"{member.name}/{Phase.AGGREGATED}", member.name, Phase.AGGREGATED, Unit.INVOCATION, shape,
                     member.tpot_s * 1e3)  # fmt: skip


def unit_library(members: Mapping[str, ServedMember], units: Sequence[EnumeratedUnit], fingerprint: str) -> Library:
    """Templates of one node each. `members` by name; `fingerprint` of the cost model."""
    classes = [work_class_of(members[name]) for name in sorted(members)]
    number = {each.component: i for i, each in enumerate(classes)}
    configs = tuple(sorted({unit.node.id for unit in units}))
    at = {config: i for i, config in enumerate(configs)}
    nodes = np.zeros((len(units), len(configs)), dtype=np.uint8)
    nodes[np.arange(len(units)), [at[unit.node.id] for unit in units]] = 1
    ids = [_id(unit, members) for unit in units]
    limits = {name: _limits(unit, classes, number) for name, unit in zip(ids, units, strict=True)}
    sizes = np.array([len(unit.members) for unit in units])
    return Library(
        version=hashlib.blake2b("".join(ids).encode(), digest_size=16).hexdigest(),
        cost_model_fingerprint=fingerprint,
        configs=configs,
        classes=tuple(classes),
        ids=np.array([name.encode() for name in ids], dtype="S32"),
        nodes=nodes,
        point_template=np.arange(len(units), dtype=np.int32),
        entry_point=np.repeat(np.arange(len(units), dtype=np.int32), sizes),
        entry_class=np.array([number[name] for unit in units for name in unit.members], dtype=np.int16),
        entry_units_per_s=np.concatenate([unit.capacity.most for unit in units]),
        engines=(ENGINE,),
        template_engine=np.zeros(len(units), dtype=np.int16),
        limits=limits,
    )


def _id(unit: EnumeratedUnit, members: Mapping[str, ServedMember]) -> str:
    """Content hash of the node and the members; rates and quotas are no part of it."""
    what = [
        (name, members[name].model.id, members[name].model.revision, members[name].model.dtype) for name in unit.members
    ]
    return hashlib.blake2b(msgspec.json.encode((unit.node.id, what, ENGINE, DISPATCH)), digest_size=16).hexdigest()


def _limits(unit: EnumeratedUnit, classes: Sequence[WorkClass], number: Mapping[str, int]) -> tuple[Limit, ...]:
    names = [classes[number[name]].id for name in unit.members]
    rows = (unit.capacity.time, unit.capacity.kv)
    return tuple(dict(zip(names, row.tolist(), strict=True)) for row in rows)
