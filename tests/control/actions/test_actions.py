"""Actions: checked, written and accounted for in one transaction, or refused with nothing changed."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from control.access.role import Role
from control.actions.apply_spec import WantedFleet, apply_spec, set_mode
from control.actions.budgets import remove_budget, set_budget
from control.actions.context import ActionContext
from control.actions.decide_plan import accept_solved, apply_plan, approve_plan, reject_plan, waiting_change
from control.actions.drain_instance import drain_instance
from control.actions.end_fleet import end_fleet
from control.actions.override_demand import end_override, override_demand
from control.actions.plan_change import plan_change
from control.actions.projects import create_project
from control.actions.refusal import LookFirstError, LosesTrafficError, LostTraffic, NotNowError, WrongFieldError
from control.actions.tokens import create_token
from control.db.budgets import PostgresBudgets, Scope
from control.db.database import Database
from control.db.errors import InUseError, NotStoredError, StaleVersionError
from control.db.events import PostgresEvents
from control.db.fleets import PostgresFleets
from control.db.instances import PostgresInstances
from control.fleet_file.document import Document
from control.lifecycle.fleet import FleetMode, FleetRecord
from control.planning.world import world_of
from tests.control.api.conftest import now
from tests.control.api.worlds import kept_plan, serving, spec

MODEL = "smollm2-135m-instruct"


@pytest.fixture
def act(database: Database) -> ActionContext:
    return ActionContext(database, now(), "cli:me", "a test", "trace-1")


def wanted(mode: FleetMode | None = None, project: str | None = None, **changes: Any) -> WantedFleet:
    document = spec(**changes)
    world = world_of(Document("spec", document, {}))
    return WantedFleet(world, msgspec.json.encode(document).decode(), "", mode, project)


def later(act: ActionContext) -> ActionContext:
    return replace(act, now=now())


def kinds(database: Database) -> list[str]:
    return [past.event.kind for past in reversed(PostgresEvents(database).page(99))]


@pytest.fixture
def chat(act: ActionContext) -> FleetRecord:
    """In mode approve."""
    return apply_spec(act, wanted(FleetMode.APPROVE), None)


def test_what_is_not_said_of_a_fleet_stays_as_it_is(act: ActionContext) -> None:
    create_project(act, "search")
    made = apply_spec(act, wanted(), None)
    assert (made.mode, made.project) == (FleetMode.OBSERVE, "default")
    moved = apply_spec(act, wanted(FleetMode.AUTO, "search"), made)
    again = apply_spec(act, wanted(), moved)
    assert (again.mode, again.project, again.version) == (FleetMode.AUTO, "search", 3)
    (*_, event) = PostgresEvents(act.database).page(99, kind="fleet.created")
    assert (event.event.actor, event.event.text[:8], event.event.trace) == ("cli:me", "a test: ", "trace-1")


def test_nothing_of_a_refused_spec_is_stored(act: ActionContext, chat: FleetRecord) -> None:
    before = kinds(act.database)
    with pytest.raises(InUseError, match="already"):
        apply_spec(act, wanted(), None)
    with pytest.raises(StaleVersionError):
        apply_spec(act, wanted(), replace(chat, version=7))
    with pytest.raises(WrongFieldError, match="nearest is 'default'") as refused:
        apply_spec(act, wanted(project="defualt"), chat)
    assert refused.value.field == "project"
    assert PostgresFleets(act.database).load("chat") == chat
    assert kinds(act.database) == before


def test_a_model_that_serves_goes_only_when_it_is_confirmed(act: ActionContext, chat: FleetRecord) -> None:
    kept_plan(act.database, "chat")
    serving(act.database, "chat", act.now)
    without = wanted(models=[spec()["models"][0] | {"name": "other"}])
    with pytest.raises(LosesTrafficError) as refused:
        apply_spec(act, without, chat)
    assert refused.value.models == {MODEL: LostTraffic(instances=1)}
    with pytest.raises(LosesTrafficError):
        end_fleet(act, "chat", ["other"])
    assert apply_spec(act, without, chat, refused.value.models).version == 2
    assert end_fleet(act, "chat", None).draining == 1


def test_a_name_of_a_model_leads_to_one_fleet(act: ActionContext, chat: FleetRecord) -> None:
    """Clients name the model and nothing else."""
    with pytest.raises(NotNowError, match="chat"):
        apply_spec(act, wanted(FleetMode.APPROVE, name="second"), None)
    observed = apply_spec(act, wanted(name="second"), None)
    with pytest.raises(NotNowError, match="chat"):
        set_mode(act, "second", FleetMode.AUTO)
    assert PostgresFleets(act.database).load("second") == observed
    model = spec()["models"][0] | {"name": "another"}
    renamed = apply_spec(act, wanted(FleetMode.AUTO, name="second", models=[model]), observed)
    assert renamed.mode is FleetMode.AUTO
    with pytest.raises(NotNowError, match="second"):
        apply_spec(act, wanted(models=[model]), chat)


def test_a_fleet_that_only_observes_keeps_no_name_from_others(act: ActionContext) -> None:
    apply_spec(act, wanted(), None)
    assert apply_spec(act, wanted(FleetMode.AUTO, name="second"), None).mode is FleetMode.AUTO


def test_what_serves_long_prompts_stays_with_its_app() -> None:
    model = spec()["models"][0]
    limited = wanted(models=[model | {"slo": model["slo"] | {"max_prompt_tokens": 400}}])
    assert limited.models == {MODEL, f"{MODEL}-long"}


def test_a_fleet_of_which_nothing_runs_is_gone_at_once(act: ActionContext, chat: FleetRecord) -> None:
    with pytest.raises(StaleVersionError):
        end_fleet(act, "chat", version=7)
    assert end_fleet(act, "chat").draining == 0
    assert PostgresFleets(act.database).all() == ()
    with pytest.raises(NotStoredError):
        end_fleet(act, "chat")
    assert kinds(act.database) == ["fleet.created", "fleet.removed"]


def test_an_ending_fleet_comes_back_when_its_spec_is_applied(act: ActionContext, chat: FleetRecord) -> None:
    kept_plan(act.database, "chat")
    serving(act.database, "chat", act.now)
    ending = end_fleet(act, "chat", None).record
    assert ending.ending
    assert not apply_spec(act, wanted(), ending).ending


@pytest.fixture
def proposed(act: ActionContext, chat: FleetRecord) -> str:
    plan = kept_plan(act.database, "chat").id
    fleets = PostgresFleets(act.database)
    fleets.propose(fleets.target("chat"), plan, act.now)
    return plan


def test_a_plan_is_approved_with_the_mark_of_what_was_seen(act: ActionContext, proposed: str) -> None:
    with pytest.raises(LookFirstError) as first:
        approve_plan(act, proposed, "")
    seen = waiting_change(act.database, "chat")
    assert first.value.change.mark == seen.mark
    serving(act.database, "chat", act.now)
    with pytest.raises(LookFirstError, match="has changed since"):
        approve_plan(act, proposed, seen.mark)
    done = approve_plan(act, proposed, waiting_change(act.database, "chat").mark, "cheap enough")
    assert (done.target.accepted, done.target.proposed, done.change.diff.is_empty) == (proposed, "", True)
    with pytest.raises(NotNowError, match="accepted already"):
        approve_plan(act, proposed, done.change.mark)
    with pytest.raises(NotNowError, match="accepted already"):
        waiting_change(act.database, "chat")


def test_a_plan_is_rejected_once(act: ActionContext, proposed: str) -> None:
    assert reject_plan(act, proposed, "too expensive").proposed == ""
    with pytest.raises(NotNowError, match="no plan of fleet 'chat' waits"):
        reject_plan(act, proposed)


def test_no_plan_is_accepted_by_a_fleet_that_could_not_follow_it(
    act: ActionContext, chat: FleetRecord, proposed: str
) -> None:
    mark = plan_change(act.database, chat, proposed).mark
    set_mode(later(act), "chat", FleetMode.APPROVE)
    with pytest.raises(NotNowError, match="plan it again"):
        apply_plan(act, proposed, mark)
    set_mode(later(act), "chat", FleetMode.OBSERVE)
    with pytest.raises(NotNowError, match="mode observe"):
        apply_plan(act, proposed, mark)
    with pytest.raises(NotNowError, match="mode observe"):
        waiting_change(act.database, "chat")
    serving(act.database, "chat", act.now)
    end_fleet(act, "chat", None)
    with pytest.raises(NotNowError, match="is ending"):
        apply_plan(act, proposed, mark)
    draft = kept_plan(act.database, "chat~draft").id
    with pytest.raises(NotNowError, match="draft"):
        apply_plan(act, draft, mark)


def test_a_plan_that_was_just_solved_is_accepted_once(act: ActionContext, chat: FleetRecord) -> None:
    plan = kept_plan(act.database, "chat").id
    for _ in range(2):
        accept_solved(act, "chat", plan)
    assert kinds(act.database) == ["fleet.created", "plan.accepted"]


def test_a_budget_is_of_something_that_is_there(act: ActionContext, chat: FleetRecord) -> None:
    for scope, name in ((Scope.FLEET, "chatt"), (Scope.PROJECT, "defualt")):
        with pytest.raises(NotStoredError, match="the nearest is"):
            set_budget(act, scope, name, 5.0, None, 0.0)
    with pytest.raises(WrongFieldError):
        set_budget(act, Scope.FLEET, "chat", None, None, 0.0)
    assert PostgresBudgets(act.database).all() == ()
    made = set_budget(act, Scope.FLEET, "chat", 5.0, None, 0.0, 0)
    assert (made.usd_per_hour_limit, made.usd_per_hour, made.version) == (5.0, 0.0, 1)
    with pytest.raises(StaleVersionError):
        set_budget(act, Scope.FLEET, "chat", 6.0, None, 0.0, 0)
    end_fleet(act, "chat")
    remove_budget(act, Scope.FLEET, "chat")  # also of a fleet that is gone
    assert kinds(act.database)[-1] == "budget.removed"


@pytest.mark.parametrize(("hours", "field"), [(1, ""), (-1, "expires_at")])
def test_demand_is_overridden_for_a_time_to_come(act: ActionContext, chat: FleetRecord, hours: int, field: str) -> None:
    until: datetime = act.now + timedelta(hours=hours)
    with pytest.raises(NotStoredError, match=MODEL):
        override_demand(act, "chat", "smollm", 1.0, until, "a launch")
    if field:
        with pytest.raises(WrongFieldError) as refused:
            override_demand(act, "chat", MODEL, 1.0, until, "a launch")
        assert refused.value.field == field
    else:
        assert override_demand(act, "chat", MODEL, 1.0, until, "a launch").made_by == "cli:me"
        end_override(act, "chat", MODEL)
    with pytest.raises(NotStoredError, match="is not overridden"):
        end_override(act, "chat", MODEL)


def test_an_instance_is_drained_once(act: ActionContext, chat: FleetRecord) -> None:
    kept_plan(act.database, "chat")
    instance = serving(act.database, "chat", act.now).id
    for _ in range(2):
        drain_instance(act, instance, "a new driver")
    assert PostgresInstances(act.database).load(instance).state == "draining"
    assert kinds(act.database).count("instance.drained") == 1


def test_a_token_is_of_a_project_that_is_there(act: ActionContext) -> None:
    with pytest.raises(WrongFieldError) as refused:
        create_token(act, "ci", Role.VIEWER, project="serch")
    assert refused.value.field == "project"
    with pytest.raises(WrongFieldError) as refused:
        create_token(act, " ", Role.VIEWER)
    assert refused.value.field == "name"
    assert kinds(act.database) == []
