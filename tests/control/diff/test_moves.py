"""What is done next, and what waits and why, in fleets small enough to see through."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from control.diff.describe import describe
from control.diff.limits import ChangeLimits, Disruption, Past
from control.diff.moves import MoveSet, WaitKind
from control.diff.next_moves import next_moves
from control.diff.running import Running
from control.diff.supply import Supply, supply_of
from control.diff.target import Target
from templates_lib.values.instance import Node
from tests import factories as make

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
A, B = make.offer("A", "aws/a", 1.0, 10), make.offer("B", "aws/a", 2.0, 10)
SERVE = {"m/serve": 10.0}


def want(
    template: str, count: int = 1, config: str = "A", usd: float = 1.0, nodes: dict[str, int] | None = None
) -> Target:
    return make.target(template, count, nodes or {config: 1}, SERVE, usd)


def there(name: str, template: str, state: str = "ready", requests: int = 0) -> Running:
    instance = make.running(template, [A], name=name, state=state)
    if state in ("requested", "provisioning"):
        instance = replace(instance, nodes=())
    return Running(replace(instance, id=name), {"A": 1}, SERVE, 1.0, running=requests)


def supply(more: int = 10) -> Supply:
    return supply_of([replace(A, available_count=more), replace(B, available_count=more)], (), {A.key: 2}, 4)


def moves(wanted: list[Target], running: list[Running], limits: ChangeLimits | None = None, **past: object) -> MoveSet:
    return next_moves(wanted, running, supply(), limits or ChangeLimits(), Past(**past), NOW)  # type: ignore[arg-type]


def gone(found: MoveSet) -> list[str]:
    return [drain.instance_id for drain in found.drain] + [release.instance_id for release in found.release]


def test_the_least_loaded_go_first_and_what_is_not_ready_goes_before_them() -> None:
    running = [there("i1", "t", requests=5), there("i2", "t", requests=1), there("i3", "t", requests=9)]
    assert gone(moves([want("t", 2)], running)) == ["i2"]
    assert gone(moves([want("t", 1)], [*running[:1], there("i4", "t", "loading")])) == ["i4"]


def test_an_unwanted_instance_stays_until_what_replaces_it_is_ready() -> None:
    old = there("i1", "old", requests=3)
    first = moves([want("new")], [old])
    assert [launch.target.template_id for launch in first.launch] == ["new"]
    assert not first.drain
    assert [wait.kind for wait in first.wait] == [WaitKind.CAPACITY]
    assert gone(moves([want("new")], [old, there("i2", "new", "loading")])) == []
    assert gone(moves([want("new")], [old, there("i2", "new")])) == ["i1"]


def test_of_an_old_plan_what_has_its_nodes_is_kept_while_capacity_is_short_and_what_has_none_is_not() -> None:
    found = moves([want("new")], [there("i1", "old", "loading"), there("i2", "old", "requested")])
    assert gone(found) == ["i2"]
    assert gone(moves([want("new")], [there("i1", "old", "loading"), there("i3", "new")])) == ["i1"]


def test_gangs_come_before_what_fits_the_nodes_that_they_leave() -> None:
    single, gang = want("single", 3), want("gang", 2, nodes={"A": 3})
    found = moves([single, gang], [])
    assert [launch.target.template_id for launch in found.launch] == ["gang"] * 2 + ["single"] * 3


def test_a_failed_instance_is_replaced_at_once_whatever_the_disruption_budget() -> None:
    none = ChangeLimits(disruption=Disruption(max_instances=0))
    found = moves([want("t", 2)], [there("i1", "t"), there("i2", "t", "failed")], none)
    assert len(found.launch) == 1
    assert found.launch[0].reason.endswith("1 failed")


def test_drains_of_the_window_count_and_those_before_it_do_not() -> None:
    one = ChangeLimits(disruption=Disruption(max_instances=1, window=timedelta(hours=1)))
    running = [there("i1", "t"), there("i2", "t")]
    assert len(moves([], running, one).drain) == 1
    assert not moves([], running, one, drained_at=(NOW - timedelta(minutes=59),)).drain
    assert len(moves([], running, one, drained_at=(NOW - timedelta(minutes=61),)).drain) == 1
    ahead = moves([], running, one, drained_at=(NOW + timedelta(minutes=30),))
    assert [wait.kind for wait in ahead.wait] == [WaitKind.DISRUPTION]


def test_a_column_that_backs_off_waits_with_its_time() -> None:
    until = NOW + timedelta(seconds=8)
    found = moves([want("t")], [], not_before={want("t").column: until})
    assert [(wait.kind, wait.until, wait.count) for wait in found.wait] == [(WaitKind.BACK_OFF, until, 1)]


def test_limits_stop_launches_and_say_by_how_much() -> None:
    dear = moves([want("t", 3)], [], ChangeLimits(max_usd_per_hour=2.5))
    assert (len(dear.launch), [wait.kind for wait in dear.wait]) == (2, [WaitKind.SPEND])
    assert "would cost 3.00 $/h, and may cost 2.50" in dear.wait[0].reason
    many = moves([want("t", 3)], [], ChangeLimits(max_new_nodes_per_hour=2), rented_at=(NOW - timedelta(minutes=5),))
    assert (len(many.launch), [(wait.kind, wait.count) for wait in many.wait]) == (1, [(WaitKind.NEW_NODES, 2)])


def test_ids_follow_from_plan_and_place_and_are_never_used_again() -> None:
    first = moves([want("t", 2)], [])
    assert [launch.id for launch in first.launch] == [launch.id for launch in moves([want("t", 2)], []).launch]
    used = frozenset(launch.id for launch in first.launch)
    assert not used & {launch.id for launch in moves([want("t", 2)], [], used=used).launch}


def test_nodes_on_their_way_take_room() -> None:
    renting = [there(f"i{n}", "t", "provisioning") for n in range(3)]
    found = next_moves(
        [want("t", 9)], renting, supply_of([replace(A, available_count=5)], (), {}, 4), ChangeLimits(), Past(), NOW
    )
    assert len(found.launch) == 2
    assert [(wait.kind, wait.count) for wait in found.wait] == [(WaitKind.SUPPLY, 4)]


def test_moves_are_said_in_a_line_each() -> None:
    whole = there("i1", "old", requests=3)
    held = replace(whole, instance=replace(whole.instance, nodes=(Node("n", A.key),)))
    found = next_moves(
        [want("new")],
        [held],
        supply_of([replace(A, available_count=0)], (), {A.key: 1}, 4),
        ChangeLimits(),
        Past(),
        NOW,
    )
    assert describe(found) == (
        "drain i1, -1.00 $/h, 3 requests: aws/a, on-demand, has no room for its replacement while it runs; "
        "until then 10 units/s of m/serve are missing",
        "wait (room), 1 × new in aws/a, on-demand: aws/a, on-demand, has no room for 1 × A; room is being made",
    )
