"""Pipeline templates from end to end: what a build yields, and that it can be read back."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from threading import active_count
from typing import Any

import msgspec
import numpy as np
import pytest

from templates_lib.apps.served_model import HeldModel, ServedModel
from templates_lib.cost.estimated import estimated_cost_model
from templates_lib.load.workload import WorkloadShape
from templates_lib.models.catalogue import load_models
from templates_lib.ports.source import TemplateBatch
from templates_lib.sources.pipeline_record import read_record
from templates_lib.sources.pipeline_source import PipelineTemplateSource, even_budgets
from templates_lib.throughput.tables import throughput_table
from templates_lib.values.engines import ENGINES
from templates_lib.values.hardware import load_gpus
from templates_lib.values.node_config import NodeConfig, config_id
from templates_lib.values.placement import PipelinePlacement
from templates_lib.values.slo import Slo
from templates_lib.values.template import ServingTemplate, template_id
from templates_lib.values.throughput_table import StageRole
from templates_lib.values.work import Phase
from tests.templates_lib.library_assembly import library_from_batches

GPUS = load_gpus()
COSTS = estimated_cost_model(GPUS)
MODELS = load_models()
SHAPE = WorkloadShape("test", np.array([800, 1200], dtype=np.int32), np.array([150, 250], dtype=np.int32))


def _config(gpu: str, count: int, network_gbps: float = 25) -> NodeConfig:
    return NodeConfig(config_id(gpu, count, network_gbps), gpu, count, 256, network_gbps, 200)


CONFIGS = (_config("L4", 1), _config("L4", 4), _config("L40S", 2), _config("A100-80", 1))
EVERYWHERE = (frozenset(c.id for c in CONFIGS),)
PHI = ServedModel("phi", MODELS["phi-4-14b"], Slo(1200, 60), SHAPE, aggregated=True)
QWEN = ServedModel("qwen", MODELS["qwen3-32b"], Slo(1600, 100), SHAPE)


def _source(**changed: Any) -> PipelineTemplateSource:
    fields: dict[str, Any] = {"n_max": 4, "rho": 12.0, "zone_bags": EVERYWHERE, **changed}
    served = fields.pop("served", (PHI, QWEN))
    configs = fields.pop("configs", CONFIGS)
    return PipelineTemplateSource(served, configs, GPUS, {"vllm-stage": COSTS}, **fields)


def _batches(source: PipelineTemplateSource, units: Iterable[str] | None = None) -> dict[str, TemplateBatch]:
    wanted = source.units() if units is None else tuple(units)
    return {batch.unit: batch for batch in source.build(wanted, lambda *_: None)}


def _same(left: TemplateBatch, right: TemplateBatch) -> bool:
    counts = (left.sets, left.templates, left.records) == (right.sets, right.templates, right.records)
    arrays = ("ids", "nodes", "point_template", "entry_point", "entry_class", "entry_units_per_s")
    return counts and all(np.array_equal(getattr(left, name), getattr(right, name)) for name in arrays)


def _by_nodes(batch: TemplateBatch) -> dict[tuple[int, ...], float]:
    return dict(zip(map(tuple, batch.nodes.tolist()), batch.entry_units_per_s.tolist(), strict=True))


SOURCE = _source()
BUILT = _batches(SOURCE)


def test_a_unit_is_a_work_class() -> None:
    assert SOURCE.units() == tuple(c.id for c in SOURCE.classes)
    assert set(BUILT) == {"phi/prefill", "phi/decode", "phi/aggregated", "qwen/prefill", "qwen/decode"}
    for batch in BUILT.values():
        assert 0 < len(batch.ids) <= batch.templates <= batch.sets


@pytest.mark.parametrize("unit", sorted(BUILT))
def test_records_read_back_as_the_templates_that_the_arrays_describe(unit: str) -> None:
    batch = BUILT[unit]
    served = PHI if unit.startswith("phi") else QWEN
    for row, record in enumerate(batch.records):
        nodes = {SOURCE.configs[c]: n for c, n in enumerate(batch.nodes[row].tolist()) if n}
        template, capacity = read_record(record, nodes)
        t = template
        assert t.id == bytes(batch.ids[row]).decode() == capacity.template_id
        assert t.id == template_id(
            t.model, t.model_revision, t.dtype, t.engine, t.dispatch, nodes, t.placement, served.name
        )
        assert t.served_as == served.name
        assert capacity.points[0].units_per_s == {unit: batch.entry_units_per_s[row]}
        assert capacity.slo_ms == served.slo_ms(Phase(unit.split("/")[1]))
        assert SOURCE.classes[batch.entry_class[row]].id == unit
        _check_placement(msgspec.convert(t.placement.payload, PipelinePlacement), served.model.layers, nodes)


def test_a_model_that_is_served_under_two_names_has_templates_of_each() -> None:
    one = replace(QWEN, name=QWEN.model.id)
    built = _batches(_source(served=(one, replace(QWEN, name="other"))))
    for phase in ("prefill", "decode"):
        here, there = built[one.class_id(Phase(phase))], built[f"other/{phase}"]
        assert np.array_equal(here.nodes, there.nodes)
        assert not set(here.ids.tolist()) & set(there.ids.tolist())
    # Under the name of the model it needs none of its own.
    source = _source(served=(one,))
    first = _batches(source)[one.class_id(Phase.DECODE)]
    nodes = {source.configs[c]: n for c, n in enumerate(first.nodes[0].tolist()) if n}
    assert read_record(first.records[0], nodes)[0].served_as == ""


def _check_placement(placement: PipelinePlacement, layers: int, nodes: dict[str, int]) -> None:
    held: Counter[str] = Counter()
    next_layer = 0
    for number, stage in enumerate(placement.stages):
        assert stage.first_layer == next_layer
        assert stage.layers >= 1
        next_layer += stage.layers
        assert (stage.first, stage.last) == (number == 0, number == len(placement.stages) - 1)
        assert sum(n.weight * n.count for n in stage.nodes) == pytest.approx(1)
        for n in stage.nodes:
            held[n.config] += n.count
            gpu_count = next(c.gpu_count for c in CONFIGS if c.id == n.config)
            assert n.tp * n.dp * n.pp == gpu_count
            assert n.kv_blocks > 0
            assert n.batch_cap > 0 or n.chunk_tokens > 0
    assert next_layer == layers
    assert held == nodes


def test_capacity_is_that_of_the_slowest_stage() -> None:
    batch = BUILT["qwen/decode"]
    table = throughput_table(
        QWEN, Phase.DECODE, CONFIGS, GPUS, COSTS, even_budgets(QWEN.slo_ms(Phase.DECODE), 4)
    ).units_per_s
    for row, record in enumerate(batch.records):
        template, _ = read_record(record, {})
        stages = msgspec.convert(template.placement.payload, PipelinePlacement).stages
        slowest = np.inf
        for stage in stages:
            role = StageRole.FIRST if stage.first else StageRole.LAST if stage.last else StageRole.MIDDLE
            role = StageRole.ONLY if len(stages) == 1 else role
            cells = table[role, len(stages) - 1, :, stage.layers - 1]
            units = {n.config: cells[SOURCE.configs.index(n.config)] for n in stage.nodes}
            total = sum(units[n.config] * n.count for n in stage.nodes)
            slowest = min(slowest, total)
            for n in stage.nodes:
                assert n.weight == pytest.approx(units[n.config] / total)
        assert batch.entry_units_per_s[row] == pytest.approx(slowest, rel=1e-9)


def test_a_build_is_deterministic_and_resumes_unit_by_unit() -> None:
    assert _source().fingerprint == SOURCE.fingerprint
    for unit in ("qwen/decode", "phi/aggregated"):
        assert _same(_batches(_source(), [unit])[unit], BUILT[unit])


def test_the_fingerprint_follows_everything_that_templates_depend_on() -> None:
    tighter = replace(PHI, slo=Slo(1200, 50))
    longer = replace(PHI, shape=replace(SHAPE, prompt_tokens=SHAPE.prompt_tokens + 1))
    changed = [
        _source(n_max=5),
        _source(rho=6.0),
        _source(even_split=False),
        _source(unpruned=frozenset({"phi"})),
        _source(zone_bags=(*EVERYWHERE, frozenset({CONFIGS[0].id}))),
        _source(configs=CONFIGS[:3]),
        _source(served=(tighter, QWEN)),
        _source(served=(longer, QWEN)),
    ]
    assert len({SOURCE.fingerprint, *(s.fingerprint for s in changed)}) == len(changed) + 1


def test_the_fingerprint_follows_what_engines_declare(monkeypatch: pytest.MonkeyPatch) -> None:
    kind, fingerprints = ENGINES["vllm-stage"], {SOURCE.fingerprint}
    for more in ({"usable_share": 0.8}, {"cuts_over_nodes": False}, {"unpacked": {"fp8": 9.0}}):
        monkeypatch.setitem(ENGINES, "vllm-stage", replace(kind, support=replace(kind.support, **more)))
        fingerprints.add(_source().fingerprint)
    assert len(fingerprints) == 4


def test_the_order_of_zones_does_not_matter() -> None:
    bags = (frozenset({CONFIGS[0].id, CONFIGS[1].id}), frozenset({CONFIGS[2].id}))
    assert _source(zone_bags=bags).fingerprint == _source(zone_bags=bags[::-1]).fingerprint


def test_unpruned_models_keep_every_template() -> None:
    source = _source(unpruned=frozenset({"qwen"}))
    every = _batches(source, ["qwen/prefill"])["qwen/prefill"]
    pruned = BUILT["qwen/prefill"]
    assert (every.sets, every.templates) == (pruned.sets, pruned.templates)
    assert len(every.ids) == every.templates > len(pruned.ids)
    best = _by_nodes(every)
    assert {nodes: best[nodes] for nodes in _by_nodes(pruned)} == pytest.approx(_by_nodes(pruned))


def test_an_uneven_split_is_never_worse() -> None:
    unpruned = frozenset({"phi", "qwen"})
    units = ["qwen/prefill", "qwen/decode"]
    even = _batches(_source(unpruned=unpruned, n_max=3), units)
    uneven = _batches(_source(unpruned=unpruned, n_max=3, even_split=False), units)
    better = 0
    for unit in units:
        chosen = _by_nodes(uneven[unit])
        for nodes, units_per_s in _by_nodes(even[unit]).items():
            assert chosen[nodes] >= units_per_s * (1 - 1e-9)
            better += chosen[nodes] > units_per_s * (1 + 1e-9)
    assert better > 0


def test_progress_counts_the_sets_of_every_unit() -> None:
    heard: dict[str, list[tuple[int, int]]] = {unit: [] for unit in SOURCE.units()}
    batches = list(_source().build(SOURCE.units(), lambda unit, done, total: heard[unit].append((done, total))))
    for batch in batches:
        assert heard[batch.unit] == sorted(heard[batch.unit])
        assert heard[batch.unit][-1] == (batch.sets, batch.sets)


def test_an_abandoned_build_leaves_no_thread_behind() -> None:
    before = active_count()
    batches = _source().build(SOURCE.units(), lambda *_: None)
    next(batches)
    batches.close()
    assert active_count() == before


def test_what_progress_raises_stops_the_build() -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = active_count()
    with pytest.raises(KeyboardInterrupt):
        list(_source().build(SOURCE.units(), interrupt))
    assert active_count() == before


def test_a_library_holds_the_batches_in_the_order_of_the_units() -> None:
    batches = list(BUILT.values())
    made = library_from_batches(SOURCE, batches, "v")
    assert made.ids.tolist() == library_from_batches(SOURCE, batches[::-1], "v").ids.tolist()
    at = 0
    for number, unit in enumerate(SOURCE.units()):
        batch = BUILT[unit]
        end = at + len(batch.ids)
        assert made.ids[at:end].tolist() == batch.ids.tolist()
        assert set(made.entry_class[made.entry_point.searchsorted(at) : end].tolist()) == {number}
        assert made.entry_units_per_s[at:end].tolist() == batch.entry_units_per_s.tolist()
        at = end
    assert made.size == at
    assert made.point_template.tolist() == list(range(at))


def test_a_model_that_nothing_holds_has_no_template() -> None:
    large = replace(QWEN, name="large", model=MODELS["qwen3-235b-a22b"])
    batch = _batches(_source(served=(large,), n_max=2), ["large/decode"])["large/decode"]
    assert batch.sets > 0
    assert batch.templates == len(batch.ids) == 0


def test_what_no_build_could_use_is_refused() -> None:
    with pytest.raises(ValueError, match="1 to 8 nodes"):
        _source(n_max=9)
    with pytest.raises(ValueError, match="rho is nan"):
        _source(rho=float("nan"))
    with pytest.raises(ValueError, match=r"no model 'qwn'.*'qwen'"):
        _source(unpruned=frozenset({"qwn"}))
    with pytest.raises(ValueError, match="same name: phi, phi"):
        _source(served=(PHI, PHI))
    with pytest.raises(ValueError, match=r"unknown GPU 'L44'.*'L4'"):
        _source(configs=(_config("L44", 1),))
    with pytest.raises(ValueError, match=r"unit of work 'phi/decod'.*'phi/decode'"):
        next(SOURCE.build(("phi/decod",), lambda *_: None))


BOTH = replace(QWEN, engine="vllm", others=(HeldModel("torch", MODELS["qwen3-32b"]),))
BOTH_COSTS = {name: estimated_cost_model(GPUS, name) for name in ("vllm", "torch")}
Made = dict[str, list[tuple[ServingTemplate, float]]]


def _made(served: ServedModel, **more: Any) -> Made:
    """Unit → its templates, and what each sustains."""
    source = PipelineTemplateSource(
        (served,), CONFIGS, GPUS, BOTH_COSTS, n_max=2, rho=12.0, zone_bags=EVERYWHERE, **more
    )
    found: Made = {}
    for unit, batch in _batches(source).items():
        assert len({*batch.ids.tolist()}) == len(batch.records)
        names = [source.engines[engine] for engine in batch.template_engine]
        assert names == [source.engine_of(record) for record in batch.records]
        assert (batch.point_template == np.arange(len(batch.ids))).all()
        for record, counts, units_per_s in zip(batch.records, batch.nodes, batch.entry_units_per_s, strict=True):
            template, _ = read_record(record, {c: int(n) for c, n in zip(source.configs, counts, strict=True) if n})
            found.setdefault(unit, []).append((template, float(units_per_s)))
            assert source.work_class_of(record) == unit
    return found


def _alone(templates: list[tuple[ServingTemplate, float]]) -> dict[str, tuple[str, float]]:
    """Configuration → engine and units/s of the template of one such node."""
    one = [(template, units) for template, units in templates if sum(template.nodes.values()) == 1]
    found = {next(iter(template.nodes)): (template.engine, units) for template, units in one}
    assert len(found) == len(one), "one template a node"
    return found


def test_nodes_with_the_whole_model_are_of_the_engine_that_serves_more_and_pipelines_of_the_one_that_cuts_it() -> None:
    whole, cut, both = (_made(each) for each in (replace(BOTH, others=()), replace(QWEN, engine="torch"), BOTH))
    assert {template.engine for templates in both.values() for template, _ in templates} == {"vllm", "torch"}
    for unit, templates in both.items():
        on_vllm, on_torch = _alone(whole[unit]), _alone(cut[unit])
        for config, (engine, units) in _alone(templates).items():
            by = {"vllm": on_vllm.get(config, ("", 0.0))[1], "torch": on_torch.get(config, ("", 0.0))[1]}
            assert units == by[engine]
            assert engine == ("torch" if by["torch"] > 1.05 * by["vllm"] else "vllm")
        assert _alone(templates).keys() == on_vllm.keys() | on_torch.keys()
        of_torch = {template.id: units for template, units in cut[unit]}
        for template, units in templates:
            if (nodes := sum(template.nodes.values())) > 1:
                parts = sum(_alone(templates).get(config, ("", 0.0))[1] * n for config, n in template.nodes.items())
                assert nodes == 2
                assert template.engine == "torch"
                assert units == of_torch[template.id] > parts, "what its nodes serve alone, by either engine"


def test_a_node_that_unlike_clouds_sell_has_a_template_of_each_engine() -> None:
    both, everywhere = CONFIGS[2].id, [config.id for config in CONFIGS]
    made = _made(
        replace(BOTH, only_where_started=True),
        starts={"vllm": everywhere, "torch": everywhere},
        partly={"vllm": [both]},
    )
    alone = _made(replace(QWEN, engine="torch"))
    for unit, templates in made.items():
        single = [(next(iter(t.nodes)), t.engine) for t, _ in templates if sum(t.nodes.values()) == 1]
        assert sorted(engine for config, engine in single if config == both) == ["torch", "vllm"]
        assert set(Counter(config for config, _ in single if config != both).values()) == {1}
        of_torch = {t.id: units for t, units in alone[unit]}
        assert all(of_torch[t.id] == units for t, units in templates if t.nodes == {both: 1} and t.engine == "torch")


def test_templates_of_an_engine_that_nobody_named_are_made_where_it_is_started() -> None:
    started, everywhere = CONFIGS[2].id, [config.id for config in CONFIGS]
    made = _made(replace(BOTH, only_where_started=True), starts={"vllm": [started], "torch": everywhere})
    for templates in made.values():
        assert {next(iter(t.nodes)) for t, _ in templates if t.engine == "vllm"} == {started}
        assert {t.engine for t, _ in templates if started not in t.nodes} == {"torch"}
