"""Templates of shared units: what is listed, what is stored, and what their names depend on."""

from dataclasses import replace

import numpy as np
import pytest

from templates_lib.cost.estimated import estimated_cost_model
from templates_lib.models.catalogue import load_models
from templates_lib.models.held_model import held_by
from templates_lib.ports.source import TemplateBatch
from templates_lib.sources.placement_kinds import unit_of
from templates_lib.sources.unit_source import MOST_LISTED, NamedUnit, UnitSource
from templates_lib.units.job_times import Lengths
from templates_lib.units.unit_capacity import ServedMember
from templates_lib.units.unit_template import read_unit_record
from templates_lib.values.hardware import load_gpus
from templates_lib.values.node_config import NodeConfig

GPUS = load_gpus()
TIMES = estimated_cost_model(GPUS)
NODE = NodeConfig("H100:1/n10", "H100", 1, 256.0, 10.0, 64.0)
WHOLE = held_by("torch", load_models()["phi-4-14b"])
SMALL = replace(WHOLE, layers=4, windows=WHOLE.windows[:4])


def member(name: str, tpot_s: float = 0.08) -> ServedMember:
    return ServedMember(name, SMALL, Lengths(160, 340), 4096, 2.0, tpot_s)


def source(*names: str, most: int = 8, also: tuple[NamedUnit, ...] = ()) -> UnitSource:
    return UnitSource([member(name) for name in names], [NODE], GPUS, TIMES, most_members=most, also=also)


def batch_of(made: UnitSource) -> TemplateBatch:
    (batch,) = made.build(made.units(), lambda *_: None)
    return batch


def test_a_record_is_the_template_with_its_region_as_it_was_built() -> None:
    made = source("c", "a", "b")
    batch = batch_of(made)
    assert len(batch.ids) == 4  # three pairs and all three
    for row, record in enumerate(batch.records):
        template, capacity = read_unit_record(record, {NODE.id: 1})
        assert template.id == batch.ids[row].decode()
        point = np.flatnonzero(batch.point_template == row)
        names = [made.classes[k].id for k in batch.entry_class[batch.entry_point == point].tolist()]
        assert capacity.limits == tuple(dict(zip(names, uses, strict=True)) for uses in batch.limits[row])
        rates = batch.entry_units_per_s[batch.entry_point == point].tolist()
        assert capacity.points[0].units_per_s == dict(zip(names, rates, strict=True))
        unit = unit_of(template)
        assert [f"{each.component}/aggregated" for each in unit.executors] == names
        assert 0 < unit.pool_bytes < GPUS["H100"].memory_bytes
        # The members together have room for one request each, and no more than the pool.
        assert all(nodes.kv_blocks > 0 for each in unit.executors for _, _, nodes, _ in each.placed())


def test_units_of_many_models_are_listed_by_size_and_named_beyond() -> None:
    names = tuple(f"m{i:02d}" for i in range(24))  # 276 pairs, 2,024 threes
    few, named = source(*names), source(*names, also=(NamedUnit(NODE.id, names[:5]), NamedUnit("L4:1/n10", names[:3])))
    assert not few.has_all(NODE)
    assert source(*names[:6]).has_all(NODE)
    sizes = [len(unit.members) for unit in few.on(NODE)]
    assert (len(sizes), set(sizes)) == (276, {2})
    assert len(sizes) <= MOST_LISTED
    assert {unit.members for unit in named.on(NODE)} - {unit.members for unit in few.on(NODE)} == {names[:5]}
    assert {len(unit.members) for unit in source(*names[:6], most=3).on(NODE)} == {2, 3}


def test_a_library_depends_on_all_that_its_templates_do() -> None:
    made = source("a", "b")
    others = [
        source("a", "c"),
        source("a", "b", most=2),
        source("a", "b", also=(NamedUnit(NODE.id, ("a", "b")),)),
        UnitSource([member("a"), member("b", tpot_s=0.07)], [NODE], GPUS, TIMES, most_members=8),
        UnitSource([member("a"), member("b")], [replace(NODE, id="H100:1/n25")], GPUS, TIMES, most_members=8),
    ]
    assert len({made.fingerprint, *(each.fingerprint for each in others)}) == 1 + len(others)
    assert source("b", "a").fingerprint == made.fingerprint
    with pytest.raises(ValueError, match="no unit of work"):
        next(iter(made.build(("L4:1/n10",), lambda *_: None)))
