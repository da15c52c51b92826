"""Templates that run under an objective that has changed: what they sustain, or that they cannot."""

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from templates_lib.ports.library_store import TemplateRecord
from templates_lib.sources.library_union import union
from templates_lib.sources.pipeline_record import PipelineRecord
from templates_lib.sources.pipeline_source import PipelineTemplateSource
from templates_lib.sources.recertified_source import RecertifiedSource
from templates_lib.values.slo import Slo
from tests.templates_lib.library_assembly import library_from_batches
from tests.templates_lib.test_pipeline_source import PHI, _source

Nodes = tuple[int, ...]


def source(share: float = 1.0, **changed: Any) -> PipelineTemplateSource:
    """All templates of a model, with its objective times `share`."""
    served = replace(PHI, slo=Slo(PHI.slo.ttft_ms * share, PHI.slo.tpot_ms * share))
    return _source(**{"served": (served,), "n_max": 2, "unpruned": frozenset({"phi"}), **changed})


def records(made: PipelineTemplateSource) -> list[tuple[str, TemplateRecord, float, tuple[str, Nodes]]]:
    """Id, record, capacity, and class with nodes, of every template."""
    found = []
    for batch in made.build(made.units(), lambda *_: None):
        for name, record, units, nodes in zip(
            batch.ids.tolist(), batch.records, batch.entry_units_per_s.tolist(), batch.nodes.tolist(), strict=True
        ):
            counts = {config: n for config, n in zip(made.configs, nodes, strict=True) if n}
            found.append(
                (name.decode(), TemplateRecord("pipeline", "old", record, counts), units, (batch.unit, tuple(nodes)))
            )
    return found


def of_other_times(record: bytes) -> bytes:
    """As if it had been certified by another cost model: it is judged from its placement alone."""
    found = msgspec.msgpack.decode(record, type=PipelineRecord)
    certificate = msgspec.structs.replace(found.certificate, cost_model_fingerprint="another")
    return msgspec.msgpack.encode(msgspec.structs.replace(found, certificate=certificate, units_per_s=1e9))


@pytest.mark.parametrize("changed", [{}, {"even_split": False}], ids=["even", "uneven"])
def test_judged_by_its_placement_a_template_sustains_what_the_search_found(changed: dict[str, Any]) -> None:
    made = source(**changed)
    every = records(made)
    assert len(every) > 30
    for _, stored, units, _ in every:
        again = made.recertified(of_other_times(stored.record))
        assert again is not None
        assert again[1] >= units * (1 - 1e-9)
        if not changed:
            assert again[1] == pytest.approx(units)


def test_under_a_tighter_objective_no_template_claims_more_than_before_or_than_the_best_on_its_nodes() -> None:
    tight, every = source(0.7, n_max=3), records(source(n_max=3))
    best = {nodes: units for _, _, units, nodes in records(tight)}
    kept = 0
    for _, stored, units, nodes in every:
        found = tight.recertified(stored.record)
        if found is not None:
            kept += 1
            assert 0 < found[1] <= units
            assert found[1] <= best[nodes] * 1.001
            assert msgspec.msgpack.decode(found[0], type=PipelineRecord).certificate.slo_ms < 1200
    assert 0 < kept < len(every)


def test_what_runs_joins_a_library_by_its_own_id_with_its_new_capacity_or_stays_out() -> None:
    old, tight = source(), source(0.7)
    running = {name: stored for name, stored, _, _ in records(old)}
    assert {tight.work_class_of(stored.record) for stored in running.values()} == set(tight.units())
    again = RecertifiedSource(tight, running)
    assert again.units() == tuple(sorted(tight.units()))
    extra = library_from_batches(again, again.build(again.units(), lambda *_: None), "again")
    new = library_from_batches(tight, tight.build(tight.units(), lambda *_: None), "new")
    only = ~np.isin(extra.ids, new.ids)
    both = union(new, extra.select(only))
    assert both.size == new.size + int(only.sum()) > new.size
    assert {each.decode() for each in extra.ids.tolist()} < running.keys()
    # As it was certified before, it does not count.
    before = library_from_batches(old, old.build(old.units(), lambda *_: None), "old")
    assert union(new, before.select(~np.isin(before.ids, new.ids))).size == new.size


def test_a_template_of_other_software_or_of_no_model_is_of_no_class() -> None:
    (_, stored, _, _), *_ = records(source())
    found = msgspec.msgpack.decode(stored.record, type=PipelineRecord)
    for change in ({"work_class": "gone/decode"}, {"software": replace(found.certificate.software, engine="torch")}):
        certificate = msgspec.structs.replace(found.certificate, **change)
        assert (
            source().work_class_of(msgspec.msgpack.encode(msgspec.structs.replace(found, certificate=certificate)))
            == ""
        )
