"""Ids as commands print them: their beginning opens the same, as long as it is one's alone."""

from typer.testing import CliRunner

from control.cli.main import app
from control.db.database import Database
from control.lifecycle.event import EventKind
from tests.control.api.conftest import Api
from tests.control.api.worlds import kept_plan, spec
from tests.control.lifecycle.worlds import driven


def test_the_beginning_of_an_id_is_enough_and_two_are_told_apart(operator: Api, database: Database) -> None:
    operator.post("/fleets", {"spec": spec()})
    first, second = kept_plan(database, "chat", number=1), kept_plan(database, "chat", number=12)
    assert operator.get(f"/plans/{second.id[:-1]}").status_code == 200
    assert operator.get(f"/plans/{first.id}").json()["id"] == first.id, "another begins so, but this is it"
    assert operator.get(f"/plans/{first.id[:-1]}/diff").status_code == 404
    assert "more than one" in operator.get(f"/plans/{first.id[:-1]}").json()["detail"]
    instance = driven(database, EventKind.PROVISION).id
    for path in ("", "/history", "/logs"):
        assert operator.get(f"/instances/{instance[:-1]}{path}").status_code == 200
    assert operator.get("/instances/nothing").status_code == 404


def test_a_parameter_that_no_route_has_is_refused_with_the_nearest(operator: Api) -> None:
    answer = operator.get("/plans?flet=chat&limit=3")
    assert answer.status_code == 422
    assert [each["path"] for each in answer.json()["errors"]] == ["query.flet"]
    assert "'fleet'" in answer.json()["detail"]
    assert operator.get("/plans?fleet=chat&limit=3").status_code == 200


def test_the_commands_take_the_beginning_of_an_id(database: Database, database_url: str) -> None:
    instance = driven(database, EventKind.PROVISION).id

    def run(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, [*arguments, "--database-url", database_url])
        return done.exit_code, done.output

    assert run("events", instance[:-1])[1].count(instance) == run("events", instance)[1].count(instance) > 0
    code, said = run("templates", "show", "abc")
    assert (code, "abc" in said) == (1, True)
