"""A minimum of replicas that supply cannot give is told, not an error."""

from dataclasses import replace

from control.allocator import solve
from control.checker import check
from templates_lib.values.settings import Guardrails, Replicas, Settings
from templates_lib.values.work import Demand, Leg, Route
from tests.control.allocator.allocation_cases import Shape, World, offer


def world(nodes: int, least: int) -> World:
    return World(
        shapes=(Shape({"c": 1}, ({"m/serve": 5.0},)),),
        offers=(offer("c", "z", 1.0, nodes),),
        routes=(Route("m/route", "m", "chat", (Leg("m/serve", 1.0),)),),
        demand=(Demand("m", "chat", 1.0),),
        settings=Settings(guardrails=Guardrails(replicas={"m/serve": Replicas(least)})),
    )


def test_a_minimum_that_supply_cannot_give_is_a_reason() -> None:
    short = world(nodes=2, least=3)
    plan = solve(short.snapshot, short.library)
    assert [i.count for i in plan.instances] == [2]
    assert [(r.kind, r.subject) for r in plan.reasons] == [("replicas", "m/serve")]
    assert "2 of the 3" in plan.reasons[0].text
    assert check(plan, short.snapshot) == ()


def test_a_minimum_that_is_met_needs_no_reason() -> None:
    enough = world(nodes=3, least=3)
    plan = solve(enough.snapshot, enough.library)
    assert [i.count for i in plan.instances] == [3]
    assert plan.reasons == ()


def test_demand_comes_before_the_minimum_of_another_class() -> None:
    """Two nodes: one serves the demand, the other all that is left for the three idle replicas asked for."""
    made = world(nodes=2, least=1)
    settings = replace(made.settings, guardrails=Guardrails(replicas={"n/serve": Replicas(3)}))
    both = replace(made, shapes=(*made.shapes, Shape({"c": 1}, ({"n/serve": 5.0},))), settings=settings)
    plan = solve(both.snapshot, both.library)
    assert not plan.unmet
    assert sorted((i.model, i.count) for i in plan.instances) == [("m", 1), ("n", 1)]
    assert [r.subject for r in plan.reasons] == ["n/serve"]
