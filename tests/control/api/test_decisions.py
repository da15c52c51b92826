"""What becomes of a plan: nothing is held to one that nobody has looked at."""

from typing import Any

import pytest

from control.db.database import Database
from control.db.fleets import PostgresFleets
from tests.control.api.conftest import Api, now
from tests.control.api.worlds import OWN_CONFIG, kept_plan, serving, spec


@pytest.fixture
def chat(operator: Api, database: Database) -> str:
    """A fleet that waits for somebody's word on a plan of two instances, while one runs."""
    assert operator.post("/fleets", {"spec": spec(), "mode": "approve"}).status_code == 201
    kept_plan(database, "chat")
    serving(database, "chat", now())
    waiting = kept_plan(database, "chat", count=2, number=2)
    fleets = PostgresFleets(database)
    fleets.propose(fleets.target("chat"), waiting.id, now())
    return waiting.id


def decide(api: Api, plan: str, what: str, **body: str) -> Any:
    return api.post(f"/plans/{plan}:{what}", body)


def test_a_diff_says_dollars_capacity_and_requests(operator: Api, chat: str) -> None:
    diff = operator.get(f"/plans/{chat}/diff").json()
    assert (diff["usd_per_hour_before"], diff["usd_per_hour_after"]) == pytest.approx((0.8, 1.6))
    assert (diff["kept"], diff["launched"], diff["drained"], diff["requests_at_risk"]) == (1, 1, 0, 0)
    assert diff["units_per_s_after"] == {"smollm2-135m-instruct/aggregated": 2.0}
    assert diff["steps"][0]["text"][0].startswith("launch ")
    assert diff["unrunnable"] == []


def test_a_diff_says_why_no_node_could_run_the_plan(operator: Api, admin: Api, chat: str) -> None:
    assert admin.post("/models", {"name": "own", "config": OWN_CONFIG}).status_code == 201
    given = spec()
    given["models"].append(given["models"][0] | {"model": "own"})
    assert operator("PUT", "/fleets/chat", {"spec": given, "mode": "approve"}, If_Match='"1"').status_code == 200
    (why,) = operator.get(f"/plans/{chat}/diff").json()["unrunnable"]
    assert "weights of own" in why
    assert "set `weights`" in why


def test_a_plan_is_approved_once_its_diff_was_looked_at(operator: Api, viewer: Api, chat: str) -> None:
    assert decide(viewer, chat, "approve").status_code == 403
    refused = decide(operator, chat, "approve")
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:medley:problem:look-first")
    mark = refused.json()["facts"]["diff"]["mark"]
    done = decide(operator, chat, "approve", mark=mark, reason="cheap enough")
    assert (done.status_code, done.json()["plan"]["accepted"], done.json()["plan"]["proposed"]) == (200, chat, "")
    assert operator.get("/fleets/chat").json()["plan"]["accepted_by"].startswith("token:")
    (event,) = operator.get("/events?kind=plan.accepted").json()["items"]
    assert (event["subject"], "cheap enough" in event["text"]) == (chat, True)
    assert event["detail"] == pytest.approx({"usd_per_hour": 1.6})  # it was held to no plan before
    assert decide(operator, chat, "approve", mark=mark).status_code == 409  # it waits no more


def test_what_has_changed_since_is_looked_at_again(operator: Api, database: Database, chat: str) -> None:
    mark = operator.get(f"/plans/{chat}/diff").json()["mark"]
    serving(database, "chat", now(), "i000000000002")
    refused = decide(operator, chat, "approve", mark=mark)
    assert (refused.status_code, refused.json()["facts"]["diff"]["launched"]) == (409, 0)


def test_any_plan_of_the_fleet_may_be_applied(operator: Api, chat: str) -> None:
    assert decide(operator, "plan-chat-1", "approve", mark="x").status_code == 409
    mark = operator.get("/plans/plan-chat-1/diff").json()["mark"]
    done = decide(operator, "plan-chat-1", "apply", mark=mark).json()
    assert (done["plan"]["accepted"], done["plan"]["proposed"]) == ("plan-chat-1", chat)
    assert done["diff"]["is_empty"]
    mark = operator.get(f"/plans/{chat}/diff").json()["mark"]
    assert decide(operator, chat, "apply", mark=mark).status_code == 200
    newest = operator.get("/events?kind=plan.accepted").json()["items"][0]
    assert newest["detail"] == pytest.approx({"usd_per_hour": 1.6, "usd_per_hour_before": 0.8})


def test_a_plan_is_rejected(operator: Api, chat: str) -> None:
    assert decide(operator, chat, "reject", reason="too dear").json()["plan"]["proposed"] == ""
    assert decide(operator, chat, "reject").status_code == 409


def test_nothing_is_held_to_a_plan_that_is_out_of_date(operator: Api, chat: str) -> None:
    mark = operator.get(f"/plans/{chat}/diff").json()["mark"]
    operator("PUT", "/fleets/chat", {"spec": spec(), "mode": "approve"}, If_Match='"1"')
    refused = decide(operator, chat, "apply", mark=mark)
    assert (refused.status_code, "plan it again" in refused.json()["detail"]) == (409, True)


def test_a_fleet_that_only_observes_touches_nothing(operator: Api, database: Database) -> None:
    operator.post("/fleets", {"spec": spec()})
    plan = kept_plan(database, "chat")
    mark = operator.get(f"/plans/{plan.id}/diff").json()["mark"]
    refused = decide(operator, plan.id, "apply", mark=mark)
    assert (refused.status_code, "mode observe" in refused.json()["detail"]) == (409, True)


def test_nothing_is_held_to_a_draft(operator: Api, database: Database) -> None:
    operator.post("/fleets", {"spec": spec(), "mode": "auto"})
    plan = kept_plan(database, "chat~draft")
    assert decide(operator, plan.id.replace("~", "%7E"), "apply").status_code in (409, 422)
    assert operator.get("/plans").json()["items"][0]["draft"]


def test_a_plan_within_the_solvers_tolerance_is_not_told_as_optimal(viewer: Api, database: Database) -> None:
    for number, gap in enumerate((0.0, 0.019)):
        kept_plan(database, "chat", number=number, gap=gap)
    (near, best) = viewer.get("/plans").json()["items"]
    assert (best["summary"]["status"], best["proof"]) == ("optimal", "optimal")
    assert (near["summary"]["status"], near["proof"]) == ("optimal", "within 1.90% of the optimum")
    assert viewer.get(f"/plans/{near['id']}").json()["proof"] == near["proof"]
