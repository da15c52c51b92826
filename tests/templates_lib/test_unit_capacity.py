"""What units can do at once, and which there are."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from templates_lib.cost.estimated import estimated_cost_model
from templates_lib.models.catalogue import load_models
from templates_lib.models.held_model import held_by
from templates_lib.models.model_spec import ModelSpec
from templates_lib.units.enumeration import enumerated_units
from templates_lib.units.job_times import Lengths, MemberJobs
from templates_lib.units.unit_capacity import MemberUse, ServedMember, member_use, unit_capacity
from templates_lib.units.unit_library import unit_library
from templates_lib.values.gpu import GIB
from templates_lib.values.hardware import load_gpus
from templates_lib.values.node_config import NodeConfig

GPUS = load_gpus()
TIMES = estimated_cost_model(GPUS)
NODES = [NodeConfig(f"{gpu}:1/n10", gpu, 1, 256.0, 10.0, 64.0) for gpu in ("L40S", "H100")]
NAMES = ("gpt-oss-20b", "phi-4-14b", "small")


def model(name: str) -> ModelSpec:
    """`small`: a quarter of the layers."""
    whole = held_by("torch", load_models()[name if name != "small" else "phi-4-14b"])
    return whole if name != "small" else replace(whole, id=name, layers=10, windows=whole.windows[:10])


def member(name: str, tpot_s: float = 0.08) -> ServedMember:
    return ServedMember(name, model(name), Lengths(160, 340), 4096, 2.0, tpot_s)


def use(name: str, node: NodeConfig) -> MemberUse:
    found = member_use(TIMES, member(name), node, GPUS[node.gpu])
    assert found is not None
    return found


@pytest.mark.parametrize("node", NODES, ids=lambda node: node.gpu)
def test_at_its_limits_a_unit_has_time_for_every_job_and_room_for_every_request(node: NodeConfig) -> None:
    names = NAMES[1:]
    uses = [use(name, node) for name in names]
    capacity = unit_capacity(uses, GPUS[node.gpu], 1)
    assert capacity is not None
    x = 0.5 * capacity.most
    x /= max(capacity.time @ x, capacity.kv @ x)
    busy = room = 0.0
    for name, rate in zip(names, x.tolist(), strict=True):
        served = member(name)
        times = MemberJobs(TIMES, served.model, node, served.lengths).times(1.0, 1.0, 256)
        requests = rate * served.lengths.output * served.tpot_s  # that decode at once, by Little's law
        step = float(np.interp(max(requests, 1.0), np.arange(1, 257), times.decode_s))
        busy += step / served.tpot_s + rate * float(times.prefill_s[0])
        token = served.model.layers * served.model.kv_bytes_per_token_per_layer
        room += requests * served.lengths.total * token + served.model.weight_bytes
    assert busy <= 1 + 1e-9
    assert room <= GPUS[node.gpu].memory_bytes


def test_members_cost_each_other_time_and_room() -> None:
    node = NODES[1]
    alone = unit_capacity([use("phi-4-14b", node)], GPUS["H100"], 1)
    both = unit_capacity([use("phi-4-14b", node), use("gpt-oss-20b", node)], GPUS["H100"], 1)
    assert alone is not None
    assert both is not None
    assert both.time[0] > alone.time[0]
    assert both.kv[0] > alone.kv[0]


def test_members_that_keep_no_promise_or_do_not_fit_are_none() -> None:
    assert member_use(TIMES, member("phi-4-14b", tpot_s=0.001), NODES[0], GPUS[NODES[0].gpu]) is None
    large = [use("phi-4-14b", NODES[0])] * 2  # 27 GiB each on 44
    assert unit_capacity(large, GPUS["L40S"], 1) is None
    tight = MemberUse(0.6, 0.01, 1.0, 1 * GIB, 1.0)
    assert unit_capacity([tight, tight], GPUS["H100"], 1) is None  # decode jobs of one request take all of the time


def test_all_units_are_enumerated_by_size_while_they_are_few() -> None:
    uses = {node.id: {name: use(name, node) for name in NAMES} for node in NODES}
    every = enumerated_units(uses, NODES, GPUS)
    expected = {
        (node.id, members)
        for node in NODES
        for size in (1, 2, 3)
        for members in combinations(NAMES, size)
        if unit_capacity([uses[node.id][name] for name in members], GPUS[node.gpu], 1)
    }
    assert {(unit.node.id, unit.members) for unit in every.units} == expected
    assert len(every.units) == len(expected)
    assert every.are_all
    singles = enumerated_units(uses, NODES, GPUS, most_units=7)
    assert (singles.members, singles.are_all) == (1, False)
    assert {len(unit.members) for unit in singles.units} == {1}
    limited = enumerated_units(uses, NODES, GPUS, most_members=1).units
    assert [(unit.node, unit.members) for unit in limited] == [(unit.node, unit.members) for unit in singles.units]


def test_a_library_has_the_limits_of_every_unit_and_names_that_rates_do_not_change() -> None:
    uses = {node.id: {name: use(name, node) for name in NAMES} for node in NODES}
    members, units = {name: member(name) for name in NAMES}, enumerated_units(uses, NODES, GPUS).units
    library = unit_library(members, units, "costs")
    assert library.size == len(units) == len(set(library.ids.tolist()))
    for i, unit in enumerate(units):
        limits = library.limits[library.template_id(i)]
        point = {
            library.classes[int(library.entry_class[e])].id: float(library.entry_units_per_s[e])
            for e in np.flatnonzero(library.entry_point == i)
        }
        assert set(point) == {f"{name}/aggregated" for name in unit.members}
        for name, units_per_s in point.items():
            assert max(limit[name] for limit in limits) * units_per_s == pytest.approx(1.0)
    assert (unit_library(members, units, "costs").ids == library.ids).all()


def mesh(gpus: int) -> NodeConfig:
    return NodeConfig(f"L40S:{gpus}/n10", "L40S", gpus, 256.0, 10.0, 64.0)


def test_members_take_what_the_engine_holds_on_the_gpus_that_they_are_split_over() -> None:
    served = member("phi-4-14b")
    few = replace(served.model, kv_heads=2)
    served = replace(served, model=few)
    uses = {gpus: member_use(TIMES, served, mesh(gpus), GPUS["L40S"]) for gpus in (1, 2, 4)}
    one, two, four = uses[1], uses[2], uses[4]
    assert one is not None
    assert two is not None
    assert four is not None
    assert one.weight_bytes == pytest.approx(few.weight_bytes)
    assert two.weight_bytes == pytest.approx(few.weight_bytes)
    # Of two KV heads four GPUs hold two copies, of their weights and of the cache.
    assert four.weight_bytes > few.weight_bytes * 1.001
    assert (two.longest_bytes, two.kv_bytes) == (one.longest_bytes, pytest.approx(one.kv_bytes))
    assert (four.longest_bytes, four.kv_bytes) == (2 * one.longest_bytes, pytest.approx(2 * one.kv_bytes))
    assert member_use(TIMES, served, mesh(3), GPUS["L40S"]) is None  # 40 heads are not to be split over them


def test_a_prompt_of_the_percentile_has_to_be_in_time() -> None:
    served = member("phi-4-14b")
    node, gpu = NODES[1], GPUS["H100"]
    assert member_use(TIMES, replace(served, certified_prompt=2000.0), node, gpu) is not None
    assert member_use(TIMES, replace(served, certified_prompt=2e6), node, gpu) is None


def test_a_library_of_other_lengths_objectives_or_capacities_has_another_version() -> None:
    node = NODES[1]
    members = {name: member(name) for name in NAMES[1:]}

    def version(members: dict[str, ServedMember]) -> tuple[str, list[bytes]]:
        uses = {name: member_use(TIMES, each, node, GPUS[node.gpu]) for name, each in members.items()}
        units = enumerated_units({node.id: {n: u for n, u in uses.items() if u is not None}}, [node], GPUS).units
        library = unit_library(members, units, "costs")
        return library.version, library.ids.tolist()

    before, ids = version(members)
    assert version(members) == (before, ids)
    for change in ({"lengths": Lengths(200, 340)}, {"tpot_s": 0.07}):
        first = NAMES[1]
        changed, names = version(members | {first: replace(members[first], **change)})
        assert changed != before
        assert names == ids  # rates, lengths and objectives are no part of a template's identity
