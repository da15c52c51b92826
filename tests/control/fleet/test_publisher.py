"""The routing table on disk: written when it says something new, kept through damage and without a database."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from agents.channels.address import Address
from control.access.role import Role
from control.access.use_limits import UseLimits
from control.db.api_tokens import PostgresApiTokens
from control.db.database import Database
from control.db.projects import PostgresProjects
from control.fleet.publisher import Publisher
from control.fleet.routing import Routing
from control.gateway.published import read_published
from policies.priority import Priority
from tests.control.fleet.test_routing import PLAN, PREFILL, ready, routing
from tests.control.lifecycle.worlds import START

DEAD = Database(create_engine("postgresql+psycopg://127.0.0.1:1/none", connect_args={"connect_timeout": 1}), "nowhere")


@pytest.fixture
def publisher(database: Database, tmp_path: Path) -> Callable[..., Publisher]:
    def make(of: Database = database) -> Publisher:
        made = Publisher(tmp_path / "table.json", PostgresApiTokens(of), lambda: START)
        made.serve("fleet", routing())
        return made

    return make


def test_a_version_is_for_what_is_new(publisher: Callable[..., Publisher], tmp_path: Path) -> None:
    one, table = publisher(), tmp_path / "table.json"
    one.publish(())
    assert read_published(table).version == 1
    written = table.stat().st_mtime_ns
    one.publish(())
    assert table.stat().st_mtime_ns == written
    one.publish(ready(PREFILL))
    assert read_published(table).version == 2
    another = publisher()
    assert another.addresses == {"i0": Address("tcp://127.0.0.1:1", "k" * 40)}
    another.publish(ready(PREFILL))
    assert table.stat().st_mtime_ns > written
    assert read_published(table).version == 2
    another.publish(())
    assert read_published(table).version == 3


def test_of_two_fleets_with_a_model_of_one_name_the_first_keeps_it_and_nobody_else_is_touched(
    publisher: Callable[..., Publisher], tmp_path: Path
) -> None:
    def table() -> dict[str, str]:
        one.publish(ready(PREFILL))
        return {model.routing.id: model.fleet for model in read_published(tmp_path / "table.json").models}

    one, own = publisher(), routing().models["chat"]
    assert one.taken() == {}
    one.serve("another", Routing(PLAN, {"chat": replace(own, fleet="another"), "more": replace(own, fleet="another")}))
    one.serve("fleet", Routing(PLAN, {"chat": replace(own, fleet="fleet")}))  # a plan of its own later
    assert table() == {"chat": "fleet", "more": "another"}
    assert one.taken() == {"another": {"chat": "fleet"}}
    one.drop("fleet")
    assert table() == {"chat": "another", "more": "another"}
    assert one.taken() == {}


def test_tokens_that_work_are_let_in_and_others_are_not(
    publisher: Callable[..., Publisher], database: Database, tmp_path: Path
) -> None:
    tokens, one = PostgresApiTokens(database), publisher()
    one.publish(())
    assert read_published(tmp_path / "table.json").access == ()
    token, _ = tokens.create("a client", Role.CLIENT, START, priority=Priority.INTERACTIVE)
    one.publish(())
    access = read_published(tmp_path / "table.json").access
    assert access is not None
    assert [(key.id, key.priority) for key in access] == [(token.id, Priority.INTERACTIVE)]
    PostgresProjects(database).ensure(token.project, START)
    project = PostgresProjects(database).load(token.project)
    limits = UseLimits(tokens_per_minute=1000, concurrent_requests=3)
    PostgresProjects(database).change(project.name, project.version, "", limits, START)
    one.publish(())
    access = read_published(tmp_path / "table.json").access
    assert [key.project_limits for key in access or ()] == [limits]
    tokens.revoke(token.id, START)
    one.publish(())
    assert read_published(tmp_path / "table.json").access == ()


def test_without_a_database_clients_of_the_last_table_stay_let_in(
    publisher: Callable[..., Publisher], database: Database, tmp_path: Path
) -> None:
    token, _ = PostgresApiTokens(database).create("a client", Role.CLIENT, START)
    publisher().publish(())
    cut_off = publisher(DEAD)
    cut_off.publish(ready(PREFILL))
    table = read_published(tmp_path / "table.json")
    assert (table.version, set(table.addresses)) == (2, {"i0"})
    assert [key.id for key in table.access or ()] == [token.id]


def test_a_first_table_without_a_database_lets_nobody_in(publisher: Callable[..., Publisher], tmp_path: Path) -> None:
    """An empty list, not none: none would open the gateway to everybody."""
    publisher(DEAD).publish(())
    assert read_published(tmp_path / "table.json").access == ()


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"version": "x"}', b"\xff\x00"])
def test_a_damaged_table_is_written_anew(publisher: Callable[..., Publisher], tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "table.json").write_bytes(damage)
    one = publisher()
    assert one.addresses == {}
    one.publish(ready(PREFILL))
    assert set(read_published(tmp_path / "table.json").addresses) == {"i0"}
