"""A market that sells nothing now, such as of clouds whose credentials are missing: all is unmet, nothing breaks."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from control.allocator import solve
from control.checker import check
from templates_lib.values.snapshot import Snapshot
from tests.control.allocator.allocation_cases import random_world


def sold_out(snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, offers=tuple(replace(offer, available_count=0) for offer in snapshot.offers))


def empty(snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, offers=(), pools=())


@pytest.mark.parametrize("emptied", [sold_out, empty])
@pytest.mark.parametrize("seed", range(8))
def test_where_nothing_can_be_rented_all_demand_is_unmet(seed: int, emptied: Callable[[Snapshot], Snapshot]) -> None:
    made = random_world(seed)
    snapshot = emptied(replace(made.snapshot, instances=()))
    plan = solve(snapshot, made.library)
    assert check(plan, snapshot) == ()
    assert plan.instances == ()
    assert plan.unmet == pytest.approx({d.key: d.requests_per_s for d in snapshot.demand if d.requests_per_s})
