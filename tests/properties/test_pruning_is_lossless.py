"""Pruning changes no optimum, whatever the market; counting instances is what breaks it."""

from dataclasses import replace

import numpy as np
import pytest

from templates_lib.placement_solver.search import find_placements
from tests.properties.pruning_world import (
    CONFIGS,
    Made,
    Market,
    best_allocation,
    node_sets_of_all,
    random_market,
    served_apart,
    templates,
)

CHUNKS, CASES = 6, 20


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_optimum_is_the_same_with_and_without_pruning(chunk: int) -> None:
    dropped = served = unmet = held = 0
    for seed in range(chunk * CASES, (chunk + 1) * CASES):
        every, kept = templates(seed, prune=False), templates(seed, prune=True)
        market = random_market(seed, every)
        pruned = [t for t in every if t in kept or any(t == running for running, _, _ in market.running)]
        full = best_allocation(market, every)
        short = best_allocation(market, pruned, full.unmet)
        assert short.unmet == pytest.approx(full.unmet, abs=1e-5), f"seed {seed}"
        assert short.usd_per_hour == pytest.approx(full.usd_per_hour, rel=1e-6, abs=1e-6), f"seed {seed}"
        dropped += len(every) - len(pruned)
        served += full.usd_per_hour > 0
        unmet += full.unmet > 1e-3
        held += any(running not in kept for running, _, _ in market.running)
    assert dropped > 100
    assert served > CASES // 2
    assert unmet > 0
    assert held > 0, "some fleet should run a template that is pruned"


def test_kept_templates_are_those_that_were_there_before_pruning() -> None:
    for seed in range(20):
        assert set(templates(seed, prune=True)) <= set(templates(seed, prune=False))


def test_what_is_pruned_is_what_its_nodes_serve_apart() -> None:
    """The rule, word for word: a template goes if and only if smaller ones on its nodes serve at least as much."""
    for seed in range(12):
        every = templates(seed, prune=False)
        apart = {t: [o for o in every if o.work == t.work and sum(o.nodes) < sum(t.nodes)] for t in every}
        needed = [t for t in every if t.units_per_s > served_apart(t.nodes, apart[t]) * (1 + 1e-9)]
        assert templates(seed, prune=True) == needed, f"seed {seed}"


def test_a_limit_on_replicas_needs_pruning_switched_off() -> None:
    """Two nodes serve as much apart as together, so the pair is pruned; with one replica allowed it is all there is."""
    units = np.ones((4, 2, 1, 1))
    sets = node_sets_of_all(1, 2)
    both = [find_placements(units, sets, even_split=True, prune=p, advance=lambda _: None).units_per_s for p in (0, 1)]
    assert [found.tolist() for found in both] == [[1.0, 2.0], [1.0]]
    one, two = Made(3, (1, 0, 0), 1.0), Made(3, (2, 0, 0), 2.0)
    market = Market(np.ones((2, 2, CONFIGS)), np.full((2, 2, CONFIGS), 4), 8, 0.1, 0.0, (0.0, 2.0))
    assert best_allocation(market, [one]) == best_allocation(market, [one, two])
    limited = replace(market, max_replicas=1)
    assert best_allocation(limited, [one, two]).unmet == pytest.approx(0.0, abs=1e-6)
    assert best_allocation(limited, [one]).unmet == pytest.approx(1.0, abs=1e-6)


def test_limits_on_replicas_do_break_random_pruned_libraries() -> None:
    differs = 0
    for seed in range(12):
        every, kept = templates(seed, prune=False), templates(seed, prune=True)
        market = replace(random_market(seed, every), running={}, max_replicas=1)
        full = best_allocation(market, every)
        differs += best_allocation(market, kept).unmet > full.unmet + 1e-3
    assert differs > 0
