"""Units as a library that a planner reads, made in memory: what a source stores is the same, node by node."""

import hashlib
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from templates_lib.units.enumeration import EnumeratedUnit
from templates_lib.units.unit_capacity import ENGINE, ServedMember
from templates_lib.units.unit_template import unit_template, work_class_of
from templates_lib.values.library import Library


def unit_library(members: Mapping[str, ServedMember], units: Sequence[EnumeratedUnit], fingerprint: str) -> Library:
    """Templates of one node each. `members` by name; `fingerprint` of the cost model.

    The version is a hash of all that a plan is made of: ids, classes with their lengths and objectives, capacities.
    """
    classes = tuple(work_class_of(members[name]) for name in sorted(members))
    number = {each.component: i for i, each in enumerate(classes)}
    configs = tuple(sorted({unit.node.id for unit in units}))
    at = {config: i for i, config in enumerate(configs)}
    nodes = np.zeros((len(units), len(configs)), dtype=np.uint8)
    nodes[np.arange(len(units)), [at[unit.node.id] for unit in units]] = 1
    templates = [unit_template(unit, members, fingerprint) for unit in units]
    ids = [template.id for template in templates]
    limits = {name: template.record.limits for name, template in zip(ids, templates, strict=True)}
    sizes = np.array([len(unit.members) for unit in units])
    content = msgspec.json.encode((fingerprint, classes, sorted(limits.items())))
    return Library(
        version=hashlib.blake2b(content, digest_size=16).hexdigest(),
        cost_model_fingerprint=fingerprint,
        configs=configs,
        classes=classes,
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
