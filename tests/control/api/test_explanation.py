"""What an explanation has found is there for all who look at the plan."""

from datetime import timedelta

import msgspec

from control.db.database import Database
from control.db.operations import PostgresOperations
from control.explain import Explanation
from control.explain.limits import Limit
from tests.control.api.conftest import Api, now
from tests.control.api.worlds import OFFER, kept_plan, spec


def test_before_anybody_asks_shadow_prices_say_what_a_node_would_save_about(viewer: Api, database: Database) -> None:
    plan = kept_plan(database, "chat", count=10, duals={f"offer/{OFFER.key}": -0.41})
    shown = viewer.get(f"/plans/{plan.id}/explanation").json()
    assert shown["explained_at"] is None
    (node,) = shown["explanation"]["one_more_node"]
    assert (node["offer"], node["verified"], node["usd_per_hour"]) == (OFFER.key, False, 0.41)
    (limit,) = shown["explanation"]["limits"]
    assert (limit["kind"], limit["usd_per_hour"]) == ("supply", 0.41)


def test_the_newest_explanation_of_a_plan_is_kept(operator: Api, viewer: Api, database: Database) -> None:
    operator.post("/fleets", {"spec": spec("chat")})
    plan, other = kept_plan(database, "chat"), kept_plan(database, "chat", number=2)
    operations = PostgresOperations(database)
    for text in ("old", "new"):
        asked = operator.post(f"/plans/{plan.id}:explain").json()
        assert (viewer.get(f"/plans/{plan.id}/explanation").json()["explained_at"] is None) == (text == "old")
        claimed = operations.claim("a worker", timedelta(minutes=1), now())
        assert claimed is not None
        assert claimed.id == asked["id"]
        found = Explanation((Limit("quota", "pool", text, 0.5),), {}, None, (), 0, 0, ())
        result = {"plan_id": plan.id, "duals": {}} | msgspec.to_builtins(found)
        operations.succeed(claimed.id, "a worker", result, now())
    shown = viewer.get(f"/plans/{plan.id}/explanation").json()
    assert (shown["plan_id"], shown["explanation"]["limits"][0]["text"]) == (plan.id, "new")
    assert viewer.get(f"/plans/{other.id}/explanation").json()["explained_at"] is None
    assert viewer.get("/plans/nothing/explanation").status_code == 404
