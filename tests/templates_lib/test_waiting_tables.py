"""T̂ with waiting (`Slo.queueing`): monotone as without, never more than without, and kept by who runs already."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from templates_lib.apps.served_model import ServedModel
from templates_lib.sources.pipeline_record import read_record
from templates_lib.sources.pipeline_source import uneven_budgets
from templates_lib.values.slo import Slo
from templates_lib.values.throughput_table import StageRole
from templates_lib.values.work import Phase
from tests.templates_lib import throughput_worlds as worlds
from tests.templates_lib.test_pipeline_source import PHI, _source
from tests.templates_lib.test_recertified import of_other_times, records
from tests.templates_lib.test_throughput_tables import PHASES, SEARCH_ERROR, table_of, worlds_drawn


def with_waiting(served: ServedModel, **changed: float) -> ServedModel:
    return replace(served, slo=replace(served.slo, queueing=True, **changed))


def units(served: ServedModel, phase: Phase, nodes: list, cost: worlds.Roofline) -> np.ndarray:
    return table_of(served, phase, nodes, cost).units_per_s


@settings(deadline=None, max_examples=15)
@given(worlds_drawn(), st.sampled_from(PHASES))
def test_the_table_is_monotone_in_layers_budget_and_role(world: tuple, phase: Phase) -> None:
    served, cost, nodes = world
    budgets = uneven_budgets(served.slo_ms(phase), 6)
    found = table_of(with_waiting(served), phase, nodes, cost, budgets).units_per_s
    assert (np.diff(found, axis=3) <= 0).all(), "non-increasing in layers"
    assert (np.diff(found, axis=1) >= 0).all(), "non-decreasing in the budget"
    assert (found[StageRole.MIDDLE] >= found[StageRole.FIRST]).all()
    assert (found[StageRole.MIDDLE] >= found[StageRole.LAST]).all()
    assert np.isfinite(found).all()


@settings(deadline=None, max_examples=15)
@given(worlds_drawn(), st.sampled_from([Phase.DECODE, Phase.AGGREGATED]))
def test_waiting_takes_of_the_rate(world: tuple, phase: Phase) -> None:
    served, cost, nodes = world
    without, found = (units(each, phase, nodes, cost) for each in (served, with_waiting(served)))
    assert (found <= without * (1 + SEARCH_ERROR) + 1e-9).all()


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("what", ["ttft_ms", "tpot_ms"])
def test_a_laxer_objective_never_lowers_what_one_node_does(phase: Phase, what: str) -> None:
    """Where it has the memory: who may be later may also stay for longer, and holds its KV cache until then."""
    cost = worlds.Roofline({"G": worlds.gpu("G", memory_gib=600.0)})
    served = worlds.served(ttft_ms=500.0, tpot_ms=20.0)
    before = np.zeros(1)
    # An aggregated batch holds those who wait too, so that more time for that is less for decode beyond some point.
    for factor in (1.0, 1.3, 2.0) if phase is Phase.AGGREGATED else (1.0, 1.3, 2.0, 4.0, 10.0):
        lax = with_waiting(served, **{what: factor * getattr(served.slo, what)})
        found = units(lax, phase, [worlds.node("G", 2, network=200.0)], cost)[StageRole.ONLY, 0, :, -1]
        assert (found >= (1 - SEARCH_ERROR) * before).all(), factor
        before = found
    assert before.all()


@pytest.mark.parametrize("phase", PHASES)
def test_where_the_certified_request_is_late_by_itself_nothing_is_certified(phase: Phase) -> None:
    cost = worlds.Roofline({"G": worlds.gpu("G")})
    strict = with_waiting(worlds.served(ttft_ms=1.0, tpot_ms=0.1))
    assert not units(strict, phase, [worlds.node("G", 2)], cost).any()


WAITING = replace(PHI, slo=Slo(PHI.slo.ttft_ms, PHI.slo.tpot_ms, queueing=True))


def test_a_library_with_waiting_is_another_one() -> None:
    plain, waiting = _source(served=(PHI,), n_max=2), _source(served=(WAITING,), n_max=2)
    assert plain.fingerprint != waiting.fingerprint
    for made, queueing in ((plain, False), (waiting, True)):
        for _, stored, _, _ in records(made)[::7]:
            assert read_record(stored.record, stored.nodes)[1].queueing is queueing


def test_judged_by_its_placement_a_template_sustains_what_it_was_certified_for() -> None:
    made = _source(served=(WAITING,), n_max=2, unpruned=frozenset({"phi"}))
    every = records(made)
    assert {unit for *_, (unit, _) in every} == set(made.units())
    for _, stored, sustained, _ in every:
        again = made.recertified(of_other_times(stored.record))
        assert again is not None
        assert again[1] >= sustained * (1 - SEARCH_ERROR)


def test_templates_that_are_made_without_waiting_sustain_no_more_with_it() -> None:
    before = _source(served=(PHI,), n_max=2)
    waiting = _source(served=(WAITING,), n_max=2)
    found = [(waiting.recertified(stored.record), sustained) for _, stored, sustained, _ in records(before)[::5]]
    assert any(again is not None for again, _ in found)
    assert all(again is None or again[1] <= sustained * (1 + SEARCH_ERROR) for again, sustained in found)
