"""Pruning changes no optimum, whatever the market; counting instances is what breaks it."""

from dataclasses import replace

import numpy as np
import pytest

from templates_lib.library import Library
from templates_lib.pruning import redundant
from templates_lib.work import Unit
from tests.factories import library, work_class
from tests.properties.pruning_world import (
    CLASSES,
    CONFIGS,
    Made,
    Market,
    best_allocation,
    random_market,
    templates,
)

CHUNKS, CASES = 6, 10


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_optimum_is_the_same_with_and_without_pruning(chunk: int) -> None:
    dropped = served = 0
    for seed in range(chunk * CASES, (chunk + 1) * CASES):
        every, kept = templates(seed, prune=False), templates(seed, prune=True)
        market = random_market(seed, every)
        pruned = [t for t in every if t in kept or any(t == running for running, _, _ in market.running)]
        full = best_allocation(market, every)
        short = best_allocation(market, pruned, full.unmet)
        assert short.unmet == pytest.approx(full.unmet, abs=1e-6), f"seed {seed}"
        assert short.usd_per_hour == pytest.approx(full.usd_per_hour, rel=1e-6, abs=1e-6), f"seed {seed}"
        dropped += len(every) - len(pruned)
        served += full.usd_per_hour > 0
    assert dropped > 100
    assert served > CASES // 2


def test_kept_templates_are_those_that_were_there_before_pruning() -> None:
    for seed in range(20):
        assert set(templates(seed, prune=True)) <= set(templates(seed, prune=False))


def test_pruning_while_placing_is_the_general_rule() -> None:
    """The general rule, applied to all templates, keeps what the search keeps."""
    for seed in range(12):
        every, kept = templates(seed, prune=False), templates(seed, prune=True)
        of_all = _library(every)
        gone = redundant(of_all, np.zeros(of_all.size, dtype=np.bool_))
        assert [t for t, dropped in zip(every, gone, strict=True) if not dropped] == kept, f"seed {seed}"


def test_a_limit_on_replicas_needs_pruning_switched_off() -> None:
    """Two nodes serve as much apart as together, so the pair is pruned; with one replica allowed it is all there is."""
    one, two = Made(3, (1, 0, 0), 1.0), Made(3, (2, 0, 0), 2.0)
    gone = redundant(_library([one, two]), np.array([False, False]))
    assert gone.tolist() == [False, True]
    market = Market(np.ones((2, 2, CONFIGS)), np.full((2, 2, CONFIGS), 4), 8, 0.0, (0.0, 2.0))
    assert best_allocation(market, [one]) == best_allocation(market, [one, two])
    limited = replace(market, max_replicas=1)
    assert best_allocation(limited, [one, two]).unmet == pytest.approx(0.0, abs=1e-6)
    assert best_allocation(limited, [one]).unmet == pytest.approx(1.0, abs=1e-6)
    assert not redundant(_library([one, two]), np.array([False, True])).any()


def test_limits_on_replicas_do_break_random_pruned_libraries() -> None:
    differs = 0
    for seed in range(12):
        every, kept = templates(seed, prune=False), templates(seed, prune=True)
        market = replace(random_market(seed, every), running={}, max_replicas=1)
        full = best_allocation(market, every)
        differs += best_allocation(market, kept).unmet > full.unmet + 1e-3
    assert differs > 0


def _library(made: list[Made]) -> Library:
    classes = [work_class(name, Unit.INVOCATION) for name in CLASSES]
    return library(
        classes,
        {
            f"{i:032x}": ({f"c{c}": n for c, n in enumerate(t.nodes) if n}, [{CLASSES[t.work]: t.units_per_s}])
            for i, t in enumerate(made)
        },
    )
