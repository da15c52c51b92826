"""Dollars beside what was served for them: of models, and of the projects of keys."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import insert

from agents.messages.to_demand_desk import Offered, OfferedLine
from control.db.database import Database
from control.db.demand import PostgresDemand
from control.db.series_tables import capacity_sample
from control.lifecycle.node_load import NodeLoad
from tests.control.api.conftest import Api
from tests.control.api.test_series import MODEL, rented, whole
from tests.control.api.worlds import OFFER, kept_plan, serving, spec

MINUTE = timedelta(minutes=1)


def served(database: Database, at: datetime, tokens: Mapping[str, int]) -> None:
    """By project, in the minute from `at` on: so many tokens of prompts, half as many of answers, in one request."""
    lines = tuple(
        OfferedLine("chat", MODEL, "chat", project, 1, 0, count, count // 2, 1, count, count // 2)
        for project, count in tokens.items()
    )
    PostgresDemand(database).record([("g", Offered("l", int(at.timestamp()), 60, 1, lines))], datetime.now(UTC))


def usage(api: Api, since: datetime, until: datetime) -> dict[str, Any]:
    answer = api.get(f"/cost/usage?since={since.isoformat()[:19]}Z&until={until.isoformat()[:19]}Z")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_what_is_used_of_a_models_dollars_is_shared_by_the_tokens_of_projects(
    operator: Api, viewer: Api, database: Database
) -> None:
    operator.post("/fleets", {"spec": spec(), "mode": "approve"})
    kept_plan(database, "chat")
    now = datetime.now(UTC)
    begin = whole(now, timedelta(hours=1)) - timedelta(hours=2)
    rented(database, serving(database, "chat", begin).id, "n-0", begin, NodeLoad())
    served(database, begin + 5 * MINUTE, {"support": 3000, "": 1000})
    rows = [
        {
            "fleet": "chat",
            "work_class": f"{MODEL}/{phase}",
            "begins_at": begin + 5 * n * MINUTE,
            "looks": 1,
            "units_per_s": units,
        }
        for phase, units in (("prefill", 4000 / 60 / 0.25), ("decode", 1e6))
        for n in range(12)
    ]
    database.write(insert(capacity_sample), rows)
    found = usage(viewer, begin, begin + timedelta(hours=1))
    (model,) = found["models"]
    usd = OFFER.usd_per_hour
    assert (model["fleet"], model["model"], model["requests"]) == ("chat", MODEL, 2)
    assert (model["prompt_tokens"], model["output_tokens"]) == (4000, 2000)
    assert model["usd"] == pytest.approx(usd)
    assert model["usd_per_million_tokens"] == pytest.approx(usd / 6000 * 1e6)
    assert model["used"] == pytest.approx(0.25)  # of the minutes that somebody counted
    assert model["idle_usd"] == pytest.approx(0.75 * usd)
    support, nobody = found["projects"]
    assert (support["project"], nobody["project"]) == ("support", "")
    assert [support["usd"], nobody["usd"]] == pytest.approx([0.75 * 0.25 * usd, 0.25 * 0.25 * usd])
    assert support["usd_per_million_tokens"] == pytest.approx(0.25 * model["usd_per_million_tokens"])
    assert found["unused_usd"] == pytest.approx(model["idle_usd"])


def test_what_served_nothing_is_of_no_project(operator: Api, viewer: Api, database: Database) -> None:
    operator.post("/fleets", {"spec": spec(), "mode": "approve"})
    kept_plan(database, "chat")
    begin = whole(datetime.now(UTC), timedelta(hours=1)) - timedelta(hours=2)
    rented(database, serving(database, "chat", begin).id, "n-0", begin, NodeLoad())
    found = usage(viewer, begin, begin + timedelta(hours=1))
    (model,) = found["models"]
    assert (model["usd_per_million_tokens"], model["used"], model["idle_usd"]) == (None, None, None)
    assert (found["projects"], found["unused_usd"]) == ([], pytest.approx(OFFER.usd_per_hour))


def test_names_of_one_architecture_share_its_dollars_by_tokens(operator: Api, viewer: Api, database: Database) -> None:
    models = spec()["models"]
    operator.post("/fleets", {"spec": spec(models=[*models, models[0] | {"name": "second"}]), "mode": "approve"})
    kept_plan(database, "chat")
    begin = whole(datetime.now(UTC), timedelta(hours=1)) - timedelta(hours=2)
    rented(database, serving(database, "chat", begin).id, "n-0", begin, NodeLoad())
    lines = tuple(
        OfferedLine("chat", app, "chat", "p", 1, 0, count, 0, 1, count, 0)
        for app, count in ((MODEL, 300), ("second", 100))
    )
    report = Offered("l", int((begin + MINUTE).timestamp()), 60, 1, lines)
    PostgresDemand(database).record([("g", report)], datetime.now(UTC))
    found = usage(viewer, begin, begin + timedelta(hours=1))["models"]
    shares = {each["model"]: each["usd"] / OFFER.usd_per_hour for each in found}
    assert shares == pytest.approx({MODEL: 0.75, "second": 0.25})
