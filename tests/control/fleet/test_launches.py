"""What is launched and what is surplus, so that as many instances run as a plan wants."""

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from control.fleet.launches import launches, surplus
from control.fleet.wanted import Wanted
from control.lifecycle.state import InstanceState
from templates_lib.instance import LEAVING, Instance
from tests.control.fleet.fleets import instance, want

SHAPES = ((4, 2), (3, 3), (6,))
counts = st.lists(st.integers(0, 3), min_size=len(SHAPES), max_size=len(SHAPES))
living = st.lists(st.tuples(st.sampled_from(SHAPES), st.sampled_from(InstanceState), st.integers(0, 5)), max_size=12)


def wanted(wishes: list[int], plan_id: str = "plan-1") -> list[Wanted]:
    return [want(count, plan_id, layers=layers) for count, layers in zip(wishes, SHAPES, strict=True)]


def running(found: list[tuple[tuple[int, ...], InstanceState, int]]) -> list[Instance]:
    return [
        instance(f"i{number}", want(layers=layers), state, f"2026-11-21T12:00:0{since}+00:00")
        for number, (layers, state, since) in enumerate(found)
    ]


@dataclass
class Applied:
    """A fleet to which what is surplus or missing is applied, as its keeper does."""

    instances: list[Instance]
    used: set[str] = field(default_factory=set)

    def step(self, wishes: list[Wanted]) -> int:
        """How much there was to do."""
        unwanted = {each.id for each in surplus(wishes, self.instances)}
        self.instances = [
            i if i.id not in unwanted else instance(i.id, want(), InstanceState.TERMINATING) for i in self.instances
        ]
        new = launches(wishes, self.instances, self.used)
        ids = [launch.id for launch in new]
        assert len(set(ids)) == len(ids)
        assert not set(ids) & (self.used | {i.id for i in self.instances})
        self.instances += [instance(launch.id, launch.wanted, InstanceState.REQUESTED) for launch in new]
        self.used |= set(ids)
        return len(unwanted) + len(new)

    def there(self) -> Counter[str]:
        return Counter(i.template_id for i in self.instances if i.state not in LEAVING)


@settings(deadline=None)
@given(counts, living)
def test_applying_what_is_missing_and_surplus_reaches_the_plan_and_then_there_is_nothing_to_do(
    wishes: list[int], found: list[tuple[tuple[int, ...], InstanceState, int]]
) -> None:
    plan, fleet = wanted(wishes), Applied(running(found))
    fleet.step(plan)
    assert fleet.there() == Counter({each.template.id: each.count for each in plan if each.count})
    assert fleet.step(plan) == 0


@settings(deadline=None)
@given(st.lists(counts, max_size=5), st.randoms(use_true_random=False))
def test_ids_never_repeat_whatever_fails_and_whatever_is_wanted_next(wishes: list[list[int]], chance: object) -> None:
    fleet = Applied([])
    for each in wishes:  # of one plan: `step` asserts that no id comes twice
        fleet.step(wanted(each))
        fleet.instances = [i for i in fleet.instances if chance.random() < 0.5]  # type: ignore[attr-defined]


def test_to_ask_again_before_it_is_on_record_asks_for_the_same() -> None:
    plan = wanted([2, 0, 1])
    assert [each.id for each in launches(plan, (), ())] == [each.id for each in launches(plan, (), ())]
    other = wanted([2, 0, 1], "plan-2")
    assert not {each.id for each in launches(plan, (), ())} & {each.id for each in launches(other, (), ())}


def test_of_equal_instances_those_that_serve_stay() -> None:
    plan = [want(1)]
    loading = instance("i1", plan[0], InstanceState.LOADING, "2026-11-21T12:00:00+00:00")
    ready = instance("i2", plan[0], InstanceState.READY, "2026-11-21T12:00:09+00:00")
    younger = instance("i3", plan[0], InstanceState.READY, "2026-11-21T12:00:10+00:00")
    assert surplus(plan, [loading, younger, ready]) == [younger, loading]


def test_without_a_plan_all_is_surplus_but_what_is_leaving() -> None:
    states = list(InstanceState)
    every = [instance(f"i{n}", want(), state) for n, state in enumerate(states)]
    assert {i.state for i in surplus((), every)} == set(states) - LEAVING
