"""Command line and API take and refuse the same, with the same words, and leave the same behind."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from fastapi.testclient import TestClient
from sqlalchemy import URL
from typer.testing import CliRunner

from control.access.role import Role
from control.actions.context import ActionContext
from control.actions.decide_plan import accept_solved
from control.cli.main import app as commands
from control.db.budgets import PostgresBudgets
from control.db.database import Database, open_database
from control.db.demand_overrides import PostgresDemandOverrides
from control.db.events import PostgresEvents
from control.db.fleets import PostgresFleets
from tests.conftest import fresh_database
from tests.control.api.conftest import Api, app_of, now, token_of
from tests.control.api.worlds import kept_plan, serving, spec

MODEL = "smollm2-135m-instruct"
PLAN = "plan-chat-1"


@dataclass(frozen=True)
class Case:
    name: str
    prepare: Callable[[Database, Api], object]
    arguments: tuple[str, ...]
    """Of the command."""
    request: tuple[str, str, dict[str, Any]]
    """Method, path and body."""
    headers: tuple[tuple[str, str], ...] = ()
    refused: str = ""
    """Words that both say; empty: both do it."""


def fleet(mode: str = "approve") -> Callable[[Database, Api], object]:
    return lambda _, admin: admin.post("/fleets", {"spec": spec(), "mode": mode})


def nothing(database: Database, admin: Api) -> None: ...


def serves(database: Database, admin: Api) -> None:
    fleet()(database, admin)
    kept_plan(database, "chat")
    serving(database, "chat", now())


def proposed(mode: str = "approve") -> Callable[[Database, Api], object]:
    def prepare(database: Database, admin: Api) -> None:
        fleet(mode)(database, admin)
        fleets = PostgresFleets(database)
        fleets.propose(fleets.target("chat"), kept_plan(database, "chat").id, now())

    return prepare


def accepted(database: Database, admin: Api) -> None:
    fleet()(database, admin)
    accept_solved(ActionContext(database, now(), "cli:me"), "chat", kept_plan(database, "chat").id)


def outdated(database: Database, admin: Api) -> None:
    proposed()(database, admin)
    admin("PUT", "/fleets/chat", {"spec": spec()}, If_Match='"1"')


def limits(usd: float) -> dict[str, float]:
    return {"usd_per_hour_limit": usd}


NEW, READ = (("If-None-Match", "*"),), (("If-Match", '"1"'),)
HOUR = ("--usd-per-hour", "0.5")
OVERRIDE = {"requests_per_s": 2.0, "expires_at": "2999-01-01T00:00:00Z", "reason": "why"}
CASES = (
    Case("end: unknown fleet", nothing, ("fleets", "end", "chat", "--yes"), ("DELETE", "/fleets/chat", {}), READ,
         "fleet 'chat' is not stored"),
    Case("end: nothing runs", fleet(), ("fleets", "end", "chat"), ("DELETE", "/fleets/chat", {}), READ),
    Case("end: a model serves", serves, ("fleets", "end", "chat"), ("DELETE", "/fleets/chat", {}), READ,
         f"serves {MODEL} (1 instances"),
    Case("end: confirmed", serves, ("fleets", "end", "chat", "--yes"),
         ("DELETE", f"/fleets/chat?confirm={MODEL}", {}), READ),
    Case("apply: unknown project", nothing, ("apply", "-f", "SPEC", "--project", "serch", "--yes"),
         ("POST", "/fleets", {"spec": spec(), "project": "serch"}), (), "project 'serch' is not stored"),
    Case("apply: a wrong spec", nothing, ("apply", "-f", "WRONG", "--yes"),
         ("POST", "/fleets", {"spec": spec(modls=[])}), (), "did you mean 'models'"),
    Case("apply: a serving model goes", serves, ("apply", "-f", "OTHER"),
         ("PUT", "/fleets/chat", {"spec": spec(models=[spec()["models"][0] | {"name": "other"}])}), READ,
         f"serves {MODEL} (1 instances"),
    Case("approve: waits", proposed(), ("approve", "chat", "--yes"), ("POST", f"/plans/{PLAN}:approve", {})),
    Case("approve: none waits", fleet(), ("approve", "chat"), ("POST", "", {}), (), "waits for approval"),
    Case("approve: already accepted", accepted, ("approve", "chat", "--yes"),
         ("POST", f"/plans/{PLAN}:approve", {}), (), "is accepted already"),
    Case("approve: observes", proposed("observe"), ("approve", "chat", "--yes"),
         ("POST", f"/plans/{PLAN}:approve", {}), (), "is in mode observe"),
    Case("approve: of an older spec", outdated, ("approve", "chat", "--yes"),
         ("POST", f"/plans/{PLAN}:approve", {}), (), "plan it again"),
    Case("budget: unknown fleet", nothing, ("budgets", "set", "--fleet", "chat", *HOUR),
         ("PUT", "/budgets/fleet/chat", limits(0.5)), NEW, "fleet 'chat' is not stored"),
    Case("budget: unknown project", nothing, ("budgets", "set", "--project", "serch", *HOUR),
         ("PUT", "/budgets/project/serch", limits(0.5)), NEW, "project 'serch' is not stored"),
    Case("budget: below what is spent", serves, ("budgets", "set", "--fleet", "chat", *HOUR),
         ("PUT", "/budgets/fleet/chat", limits(0.5)), NEW),
    Case("budget: limits nothing", fleet(), ("budgets", "set", "--fleet", "chat"),
         ("PUT", "/budgets/fleet/chat", {}), NEW, "a budget limits dollars per hour, per month, or both"),
    Case("budget: none to remove", fleet(), ("budgets", "remove", "--fleet", "chat"),
         ("DELETE", "/budgets/fleet/chat", {}), READ, "fleet 'chat' has no budget"),
    Case("demand: unknown model", fleet(), ("demand", "override", "chat", "x", "2", "--reason", "why"),
         ("PUT", "/fleets/chat/demand/x/override", OVERRIDE), (), "fleet 'chat' has no model 'x'"),
    Case("demand: overridden", fleet(), ("demand", "override", "chat", MODEL, "2", "--reason", "why"),
         ("PUT", f"/fleets/chat/demand/{MODEL}/override", OVERRIDE)),
    Case("demand: not overridden", fleet(), ("demand", "forecast", "chat", MODEL),
         ("DELETE", f"/fleets/chat/demand/{MODEL}/override", {}), (), "is not overridden"),
    Case("token: unknown project", nothing, ("token", "create", "ci", "--project", "serch"),
         ("POST", "/tokens", {"name": "ci", "role": "viewer", "project": "serch"}), (), "'serch' is not stored"),
    Case("token: unknown", nothing, ("token", "revoke", "nobody"), ("DELETE", "/tokens/nobody", {}), (),
         "token 'nobody' is not stored"),
    Case("project: a name that is taken", nothing, ("projects", "create", "default"),
         ("POST", "/projects", {"name": "default"}), (), "there is a project 'default' already"),
    Case("webhook: no URL", nothing, ("alerts", "webhook", "add", "ops", "ftp://x", "--secret", "env:MEDLEY_WEBHOOK_X"),
         ("PUT", "/webhooks/ops", {"url": "ftp://x", "secret": "env:MEDLEY_WEBHOOK_X"}), NEW, "begins with https://"),
    Case("price: not in quarantine", nothing, ("offers", "accept", "a/b/c/spot"),
         ("POST", "/offers:accept", {"offer": "a/b/c/spot"}), (), "is not in quarantine"),
)  # fmt: skip


def left_behind(database: Database) -> list[object]:
    """All that an action may write, but times and who did it."""
    fleets, overrides = PostgresFleets(database), PostgresDemandOverrides(database).working("chat", now())
    events = [past.event for past in PostgresEvents(database).page(99)]
    return [
        [(r.name, r.project, r.mode, r.ending, r.version) for r in fleets.all()],
        [(t.accepted, t.proposed) for t in fleets.targets().values()],
        [(b.scope, b.name, b.budget, b.version) for b in PostgresBudgets(database).all()],
        [(o.model, o.requests_per_s, o.reason) for o in overrides.values()],
        sorted((e.kind, e.fleet, e.subject, tuple(e.detail.items())) for e in events),
    ]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_both_do_or_refuse_the_same(
    case: Case, server_url: URL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDLEY_HOME", str(tmp_path))
    left = []
    for call in (by_command, by_request):
        with fresh_database(server_url) as url, open_database(url) as database:
            with TestClient(app_of(database, tmp_path), raise_server_exceptions=False) as client:
                admin = Api(client, token_of(database, Role.ADMIN))
                case.prepare(database, admin)
                before = left_behind(database)
                refusal = call(case, admin, url, tmp_path)
            after = left_behind(database)
        assert (case.refused in refusal, bool(refusal)) == (True, bool(case.refused)), refusal
        assert (before == after) == bool(case.refused)
        left.append(after)
    assert left[0] == left[1]


def by_command(case: Case, _: Api, url: str, home: Path) -> str:
    """Why it was refused; empty: it was not."""
    files = {
        "SPEC": spec(),
        "WRONG": spec(modls=[]),
        "OTHER": spec(models=[spec()["models"][0] | {"name": "other"}]),
    }
    for name, document in files.items():
        (home / name).write_text(yaml.safe_dump(document))
    arguments = [str(home / each) if each in files else each for each in case.arguments]
    ran = CliRunner().invoke(commands, [*arguments, "--database-url", url], input="n\n")
    assert ran.exit_code in (0, 1), ran.output
    return ran.output if ran.exit_code else ""


def by_request(case: Case, admin: Api, *_: object) -> str:
    method, path, body = case.request
    if not path:  # the API names a plan, which there is none of
        return case.refused
    if path.endswith(":approve"):
        body = {"mark": admin.get(path.replace(":approve", "/diff")).json()["mark"]}
    answer = admin(method, path, None if method == "DELETE" else body, **dict(case.headers))
    assert answer.status_code < 500, answer.text
    return str(answer.json()["detail"]) if answer.status_code >= 300 else ""
