"""What API keys cost: over HTTP and on the command line, of whoever may see it, with what is idle beside them."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import insert
from typer.testing import CliRunner

from agents.messages.to_demand_desk import Offered, OfferedLine, OfferedWork, ServedKey
from control.access.role import Role
from control.cli.main import app as medley
from control.db.api_tokens import PostgresApiTokens
from control.db.database import Database
from control.db.demand import PostgresDemand
from control.db.instances import PostgresInstances
from control.db.series_tables import capacity_sample
from control.lifecycle.node_load import NodeLoad
from templates_lib.values.instance import Instance
from templates_lib.values.placement import Placement
from templates_lib.values.template import ServingTemplate, template_id
from templates_lib.values.work import Unit
from tests.control.api.conftest import Api
from tests.control.api.test_series import MODEL, rented, whole
from tests.control.api.worlds import OFFER, kept_plan, serving, spec, template

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def tell(database: Database, at: datetime, keys: Mapping[str, tuple[int, int]], project: str = "p") -> None:
    """Report what a minute served by key: tokens of prompts and of answers, in one request each."""
    served = tuple(ServedKey(key, 1, tokens) for key, tokens in keys.items() if key)
    prompts, answers = (sum(each[n] for each in keys.values()) for n in (0, 1))
    work = (
        OfferedWork(f"{MODEL}/prefill", Unit.PROMPT_TOKEN, prompts, 0, prompts),
        OfferedWork(f"{MODEL}/decode", Unit.OUTPUT_TOKEN, answers, 0, answers),
    )
    counts = len(keys), 0, prompts, answers, len(keys), prompts, answers
    line = OfferedLine("chat", MODEL, "chat", project, *counts, work, served)
    PostgresDemand(database).record([("g", Offered("l", int(at.timestamp()), 60, 1, (line,)))], datetime.now(UTC))


def costs(api: Api, begin: datetime, more: str = "") -> dict[str, Any]:
    until = begin + HOUR
    answer = api.get(f"/cost/keys?since={begin.isoformat()[:19]}Z&until={until.isoformat()[:19]}Z{more}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.fixture
def begin(operator: Api, database: Database) -> datetime:
    """When an instance of the fleet `chat` was rented: hours ago, at a whole one."""
    operator.post("/fleets", {"spec": spec(), "mode": "approve"})
    kept_plan(database, "chat")
    found = whole(datetime.now(UTC), HOUR) - 3 * HOUR
    rented(database, serving(database, "chat", found).id, "n-0", found, NodeLoad())
    return found


def sustain(database: Database, at: datetime, prompt_tokens_per_s: float) -> None:
    """Five minutes of capacity, and of answers more than anybody asks for."""
    rows = [
        {
            "fleet": "chat",
            "work_class": f"{MODEL}/{phase}",
            "begins_at": at,
            "looks": 1,
            "units_per_s": units_per_s,
        }
        for phase, units_per_s in (("prefill", prompt_tokens_per_s), ("decode", 1e9))
    ]
    database.write(insert(capacity_sample), rows)


def test_keys_and_what_is_idle_add_up_to_the_rent(viewer: Api, database: Database, begin: datetime) -> None:
    made, _ = PostgresApiTokens(database).create("front end", Role.CLIENT, datetime.now(UTC), None, "p")
    tell(database, begin + 5 * MINUTE, {made.id: (6000, 3000), "gone": (2000, 1000)})
    tell(database, begin + 6 * MINUTE, {"": (2000, 2000)}, project="")
    sustain(database, begin + 5 * MINUTE, prompt_tokens_per_s=10_000 / 120 / 0.5)
    found = costs(viewer, begin)
    assert found["usd"] == pytest.approx(OFFER.usd_per_hour)
    keys = {(each["project"], each["key"]): each for each in found["items"]}
    used = OFFER.usd_per_hour - found["idle_usd"]
    assert used == pytest.approx(0.5 * OFFER.usd_per_hour)
    assert {whose: each["usd"] for whose, each in keys.items()} == pytest.approx(
        {("p", made.id): 9 / 16 * used, ("p", "gone"): 3 / 16 * used, ("", ""): 4 / 16 * used}, abs=0.01
    )
    whole_cents = [round(100 * each) for each in (*(each["usd"] for each in keys.values()), found["idle_usd"])]
    assert sum(whole_cents) == round(100 * found["usd"])
    own = keys["p", made.id]
    assert (own["name"], own["requests"], own["prompt_tokens"], own["output_tokens"]) == ("front end", 1, 6000, 3000)
    assert keys["p", "gone"]["name"] == ""
    assert own["usd_per_million_tokens"] == pytest.approx(used / 16_000 * 1e6)
    project = viewer.get(f"/cost/usage?since={found['since'][:19]}Z&until={found['until'][:19]}Z").json()
    assert {each["project"]: each["usd"] for each in project["projects"]} == pytest.approx(
        {"p": 12 / 16 * used, "": 4 / 16 * used}
    )
    assert project["unused_usd"] == pytest.approx(OFFER.usd_per_hour - used)


def test_hours_of_many_instances_say_more_of_what_was_used_than_those_of_few(
    viewer: Api, database: Database, begin: datetime
) -> None:
    for at, served, sustained in ((begin + 5 * MINUTE, 9000, 12_000), (begin + 20 * MINUTE, 300, 1200)):
        tell(database, at, {"k": (served, 0)})
        sustain(database, at, prompt_tokens_per_s=sustained / 60)
    found = costs(viewer, begin)
    assert found["items"][0]["usd"] == pytest.approx(9300 / 13_200 * found["usd"], abs=0.01)


def test_prompts_and_answers_cost_what_instances_for_each_do(viewer: Api, operator: Api, database: Database) -> None:
    operator.post("/fleets", {"spec": spec(), "mode": "approve"})
    kept_plan(database, "chat")
    begin = whole(datetime.now(UTC), HOUR) - 3 * HOUR
    # Twice as many nodes make answers as read prompts.
    for name, nodes in (("i0prompts", 1), ("i0answers", 2)):
        made = of_phase(template(), prompts=name == "i0prompts")
        wanted = Instance(name, made.id, OFFER.zone_id, OFFER.market, "requested", (), fleet="chat")
        PostgresInstances(database).request(wanted, made, "plan-chat-1", begin)
        for place in range(nodes):
            rented(database, name, f"{name}-{place}", begin, NodeLoad(), place)
    tell(database, begin + 5 * MINUTE, {"reads": (9000, 100), "writes": (1000, 900)})
    found = costs(viewer, begin)
    assert found["idle_usd"] == 0  # nobody counted the capacity
    assert {each["key"]: each["usd"] for each in found["items"]} == pytest.approx(
        {"reads": OFFER.usd_per_hour * (0.9 + 2 * 0.1), "writes": OFFER.usd_per_hour * (0.1 + 2 * 0.9)}, abs=0.01
    )


def of_phase(given: ServingTemplate, *, prompts: bool) -> ServingTemplate:
    """The same that computes prompts, or answers, alone."""
    (stage,) = given.placement.payload["stages"]
    (node,) = stage["nodes"]
    node |= {"batch_cap": 0} if prompts else {"chunk_tokens": 0}
    placement = Placement(given.placement.kind, given.placement.version, {"stages": [stage | {"nodes": [node]}]})
    parts = (given.model, given.model_revision, given.dtype, given.engine, given.dispatch, given.nodes, placement)
    return ServingTemplate(template_id(*parts), *parts)


def test_pages_have_every_key_once_the_dearest_first(viewer: Api, database: Database, begin: datetime) -> None:
    tell(database, begin + MINUTE, {f"k{n}": (1000 * (1 + n // 2), 0) for n in range(7)})
    found, sizes, cursor = list[dict[str, Any]](), list[int](), ""
    for _ in range(8):
        part = costs(viewer, begin, f"&limit=2{cursor}")
        found += part["items"]
        sizes.append(len(part["items"]))
        cursor = f"&cursor={part['next']}"
        if part["next"] is None:
            break
    assert sizes == [2, 2, 2, 1]
    assert found == costs(viewer, begin)["items"]
    assert [each["key"] for each in found] == ["k6", "k4", "k5", "k2", "k3", "k0", "k1"]
    assert costs(viewer, begin, "&fleet=another")["items"] == []


def test_a_client_sees_its_own_key_alone(viewer: Api, client: TestClient, database: Database, begin: datetime) -> None:
    made, secret = PostgresApiTokens(database).create("bot", Role.CLIENT, datetime.now(UTC), None, "p")
    tell(database, begin + MINUTE, {made.id: (100, 0), "another": (100, 0)})
    found = costs(Api(client, secret.reveal()), begin)
    assert [each["key"] for each in found["items"]] == [made.id]
    assert (found["usd"], found["idle_usd"], found["next"]) == (None, None, None)
    assert found["items"][0]["usd"] == costs(viewer, begin)["items"][0]["usd"] == pytest.approx(0.4)


def test_a_span_that_is_too_long_is_refused(viewer: Api, database_url: str) -> None:
    refused = viewer.get("/cost/keys?since=2025-01-01T00:00:00Z")
    assert (refused.status_code, refused.json()["errors"][0]["path"]) == (422, "query.since")
    run = CliRunner().invoke(medley, ["token", "cost", "--since", "2025-01-01", "--database-url", database_url])
    assert (run.exit_code, run.stdout) == (1, "")


def test_the_command_says_the_same(
    viewer: Api, database: Database, database_url: str, begin: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(database, begin + MINUTE, {"k1": (3000, 0), "": (1000, 0)})
    since, until = (f"{at:%Y-%m-%dT%H:%M}" for at in (begin, begin + HOUR))
    asked = ("token", "cost", "--fleet", "chat", "--since", since, "--until", until, "--database-url", database_url)
    said = json.loads(CliRunner().invoke(medley, [*asked, "-o", "json"]).stdout)
    found = costs(viewer, begin, "&fleet=chat")
    assert (said["keys"], said["usd"], said["idle_usd"]) == (found["items"], found["usd"], found["idle_usd"])
    assert [each["key"] for each in said["keys"]] == ["k1", ""]
    monkeypatch.setenv("COLUMNS", "80")
    shown = CliRunner().invoke(medley, asked).stdout
    rows = {line.split()[0]: line.split() for line in shown.splitlines()[2:]}
    assert f"{said['usd']:,.2f}" in rows["all"]
    assert f"{said['idle_usd']:,.2f}" in rows["(idle)"]
    assert all(len(line.rstrip()) <= 80 for line in shown.splitlines())
