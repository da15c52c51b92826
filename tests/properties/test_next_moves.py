"""Whatever fails: moves reach the plan, within supply, limits and budget, and never break before they have made."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from control.diff.capacity import planned_units, ready_units
from control.diff.fleet_diff import fleet_diff
from control.diff.limits import ChangeLimits, Disruption
from control.diff.moves import MoveSet
from control.diff.running import Running
from control.diff.supply import supply_of
from control.diff.target import Target
from control.diff.transition import plan_transition
from tests import factories as make
from tests.properties.fleet_world import FleetWorld, random_plan, random_supply

seeds = st.integers(0, 2**32)
WINDOW = timedelta(minutes=20)


def held_within(world: FleetWorld) -> None:
    for offer, nodes in world.most_held.items():
        assert nodes <= world.supply.most[offer]
    held = Counter(node.offer for each in world.fleet.values() for node in each.instance.nodes)
    for pool in world.supply.pools:
        assert sum(weight * held[offer] for offer, weight in pool.members.items()) <= pool.limit + 1e-9


def in_any_window(times: Sequence[datetime], window: timedelta) -> int:
    ordered = sorted(times)
    return max((sum(start <= at < start + window for at in ordered) for start in ordered), default=0)


def no_capacity_is_lost(world: FleetWorld, plan: Sequence[Target], moves: MoveSet) -> None:
    """Voluntarily, but where the moves say how much."""
    planned, before = planned_units(plan), ready_units(world.fleet.values())
    drained = {drain.instance_id for drain in moves.drain}
    after = ready_units(each for each in world.fleet.values() if each.id not in drained)
    loss: Counter[str] = Counter()
    for drain in moves.drain:
        loss.update(drain.loss)
    for name, ready in before.items():
        assert after.get(name, 0.0) >= min(planned.get(name, 0.0), ready) - loss[name] - 1e-6


def reach(world: FleetWorld, plan: Sequence[Target], ticks: int) -> bool:
    """Whether the fleet is as wanted within so many ticks."""
    for _ in range(ticks):
        moves = world.decide(plan)
        no_capacity_is_lost(world, plan, moves)
        world.carry_out(moves)
        if moves == MoveSet() and not any(each.is_leaving or not each.is_ready for each in world.fleet.values()):
            return True
        # Where only a window keeps moves back, nothing is missed by a longer step.
        world.pass_time(1 if moves.acts or any(not each.is_ready for each in world.fleet.values()) else 5)
        held_within(world)
    return False


@settings(deadline=None, max_examples=150)
@given(seeds, st.booleans())
def test_plan_after_plan_is_reached_whatever_failed_and_however_scarce_nodes_are(seed: int, scarce: bool) -> None:
    chance = Random(seed)
    world = FleetWorld(random_supply(chance, scarce=scarce), ChangeLimits(), chance)
    for number in range(6):
        plan = random_plan(chance, world.supply, f"plan-{number}")
        world.calm = False
        reach(world, plan, chance.randint(0, 12))
        if number % 2 == 0:
            continue  # another plan comes in the middle of it
        world.calm = True
        assert reach(world, plan, 600)
        assert world.staying == Counter({t.column: t.count for t in plan})
        assert world.decide(plan) == MoveSet()


@settings(deadline=None, max_examples=100)
@given(seeds, st.booleans())
def test_limits_hold_at_every_step_and_the_plan_is_still_reached(seed: int, scarce: bool) -> None:
    chance = Random(seed)
    supply = random_supply(chance, scarce=scarce)
    plans = [random_plan(chance, supply, f"plan-{number}") for number in range(3)]
    dearest = max(sum(t.count * t.usd_per_hour for t in plan) for plan in plans)
    limits = ChangeLimits(
        max_usd_per_hour=dearest * chance.choice([1.0, 1.2, 3.0]),
        max_new_nodes_per_hour=chance.randint(4, 12),
        disruption=Disruption(max_instances=chance.randint(1, 3), window=WINDOW),
    )
    world = FleetWorld(supply, limits, chance)
    for plan in plans:
        world.calm = False
        reach(world, plans[0], chance.randint(0, 12))
        reach(world, plan, chance.randint(0, 12))
        world.calm = True
        assert reach(world, plan, 3000)
        assert world.usd_per_hour <= limits.max_usd_per_hour + 1e-6
    assert in_any_window(world.rented_at, timedelta(hours=1)) <= limits.max_new_nodes_per_hour
    assert in_any_window(world.drained_at, WINDOW) <= limits.disruption.max_instances


@settings(deadline=None, max_examples=150)
@given(seeds, st.booleans())
def test_a_transition_ends_at_the_plan_within_supply_at_each_step(seed: int, scarce: bool) -> None:
    chance = Random(seed)
    world = FleetWorld(random_supply(chance, scarce=scarce), ChangeLimits(), chance)
    reach(world, random_plan(chance, world.supply, "plan-0"), chance.randint(0, 60))
    plan = random_plan(chance, world.supply, "plan-1")
    running = list(world.fleet.values())
    found = plan_transition(plan, running, world.supply)
    held = Counter(n.offer for each in running for n in each.instance.nodes if not each.is_leaving)
    nodes = {each.id: Counter(n.offer for n in each.instance.nodes) for each in running}
    for step in found.steps:
        for launch in step.launch:
            nodes[launch.id] = Counter(launch.offers)
            held.update(launch.offers)
        assert all(count <= world.supply.most[offer] for offer, count in held.items())
        for gone in (*step.drain, *step.release):
            held.subtract(nodes[gone.instance_id])
    assert not found.stuck
    assert set(found.promised_loss) <= {name for step in found.steps for d in step.drain for name in d.loss}
    diff = fleet_diff(plan, running, world.supply)
    after = sum(t.count for t in plan)
    assert diff.kept + diff.launched == after
    assert diff.drained + diff.released + diff.kept == sum(not each.is_leaving for each in running)
    assert diff.most_usd_per_hour >= max(diff.usd_per_hour_before, diff.usd_per_hour_after) - 1e-9
    assert diff.is_empty == (world.staying == Counter({t.column: t.count for t in plan}))


def test_where_nothing_fits_beside_the_old_the_loss_is_promised_and_a_swap_needs_no_second_break() -> None:
    """One node each of two kinds, and a plan that wants what they serve the other way round."""
    supply = supply_of([make.offer("A", "aws/a", 1.0, 1), make.offer("B", "aws/a", 2.0, 1)], (), {}, 4)
    prefill, decode = {"m/prefill": 10.0}, {"m/decode": 4.0}
    wanted = [
        make.target("a2", 1, {"A": 1}, decode, 1.0),
        make.target("b2", 1, {"B": 1}, prefill, 2.0),
    ]
    offers = {o.node_config: o for o in supply.offers}
    running = [
        Running(make.running("a1", [offers["A"]]), {"A": 1}, prefill, 1.0, running=3),
        Running(make.running("b1", [offers["B"]]), {"B": 1}, decode, 2.0, running=1),
    ]
    found = plan_transition(wanted, running, supply)
    moves = [[d.instance_id for d in step.drain] + [x.target.template_id for x in step.launch] for step in found.steps]
    assert moves == [["a1"], ["a2"], ["b1"], ["b2"]]
    assert found.promised_loss == prefill
    assert fleet_diff(wanted, running, supply).requests_at_risk == 4
