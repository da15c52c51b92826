"""Migrations make exactly the tables that the code knows, and unmake them."""

import json
from collections.abc import Iterator

import msgspec
import pytest
import yaml
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, inspect, text

from control.db.location import parse_url
from control.db.migrate import downgrade, upgrade
from control.db.revision import REVISIONS, current_revision
from control.db.run_rows import calls_of
from control.db.tables import metadata
from control.fleet_file.document import parse
from control.planning.world import world_of
from medley_sdk.flows.messages import CallKind, Effects, FlowCall


@pytest.fixture
def connection(empty_database_url: str) -> Iterator[Connection]:
    engine = create_engine(parse_url(empty_database_url))
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def tables(connection: Connection) -> set[tuple[str, str]]:
    """(table, column) of all but Alembic's own."""
    inspector = inspect(connection)
    names = set(inspector.get_table_names()) - {"alembic_version"}
    return {(name, str(column["name"])) for name in names for column in inspector.get_columns(name)}


def test_the_tables_are_those_that_the_code_knows(connection: Connection) -> None:
    upgrade(connection)
    context = MigrationContext.configure(
        connection, opts={"compare_type": True, "compare_server_default": True, "target_metadata": metadata}
    )
    assert compare_metadata(context, metadata) == []


def test_every_revision_goes_up_and_down_and_up_again(connection: Connection) -> None:
    for number, revision in enumerate(REVISIONS):
        before = tables(connection)
        upgrade(connection, revision)
        assert current_revision(connection) == revision
        there = tables(connection)
        downgrade(connection, REVISIONS[number - 1] if number else "base")
        assert tables(connection) == before
        upgrade(connection, revision)
        assert tables(connection) == there
    downgrade(connection, "base")
    assert tables(connection) == set()
    assert current_revision(connection) is None


def test_the_listed_revisions_are_those_in_the_folder() -> None:
    scripts = ScriptDirectory("migrations").walk_revisions()
    assert tuple(reversed([script.revision for script in scripts])) == REVISIONS


def test_an_upgrade_of_current_tables_changes_nothing(connection: Connection) -> None:
    upgrade(connection)
    upgrade(connection)
    assert current_revision(connection) == REVISIONS[-1]


def test_a_migration_is_whole_or_not_at_all(connection: Connection) -> None:
    transaction = connection.begin()
    upgrade(connection)
    transaction.rollback()
    assert tables(connection) == set()


def test_load_on_record_is_counted_by_work_class_and_again_as_before(connection: Connection) -> None:
    upgrade(connection, "0015")
    connection.execute(text("INSERT INTO demand_report VALUES ('g/l', '2026-11-21 12:00+00', 60, 1, now())"))
    counts = (
        "requests, refused, prompt_tokens, output_tokens, served_requests, served_prompt_tokens, served_output_tokens"
    )
    line = f"gateway, started_at, app, request_type, project, fleet, {counts}"
    hour = f"fleet, started_at, app, request_type, project, seconds, {counts}"
    for columns, table, values in (
        (line, "demand_line", "'g/l', '2026-11-21 12:00+00', 'm', 'chat', 'p', 'f', 10, 2, 1000, 500, 8, 790, 410"),
        (line, "demand_line", "'g/l', '2026-11-21 12:00+00', 'n', 'chat', '', 'f', 0, 0, 0, 0, 0, 0, 0"),
        (hour, "demand_hour", "'f', '2026-11-19 12:00+00', 'm', 'chat', 'p', 3600, 600, 0, 60000, 7, 600, 60000, 7"),
    ):
        connection.execute(text(f"INSERT INTO {table} ({columns}) VALUES ({values})"))  # noqa: S608
    queries = [text(f"SELECT {c} FROM {t} ORDER BY app") for c, t in ((line, "demand_line"), (hour, "demand_hour"))]  # noqa: S608
    before = [connection.execute(query).all() for query in queries]
    upgrade(connection, "0016")
    kept = text("SELECT app, work_class, unit, offered, refused, served FROM demand_line ORDER BY app, work_class")
    assert connection.execute(kept).all() == [
        ("m", "", "invocation", 10, 2, 8),
        ("m", "m/decode", "output_token", 500, 100, 410),
        ("m", "m/prefill", "prompt_token", 1000, 200, 790),
        ("n", "", "invocation", 0, 0, 0),
        ("n", "n/decode", "output_token", 0, 0, 0),
        ("n", "n/prefill", "prompt_token", 0, 0, 0),
    ]
    downgrade(connection, "0015")
    assert [connection.execute(query).all() for query in queries] == before


SLO = "{ttft_ms: 900, tpot_ms: 30}"
"""Objectives of a model that says nothing of what is kept."""


def _fleet(slo: str) -> str:
    return f"""\
apiVersion: medley/v1
kind: Fleet
name: chat  # ours
models:
  - model: gpt-oss-20b
    slo: {slo}
    workload: azure-code
    demand: {{requests_per_s: 10}}
clouds:
  - {{cloud: aws, regions: [us-east-2], gpus: [L40S]}}
"""


@pytest.mark.parametrize(
    "spec",
    [
        _fleet(SLO),
        _fleet("\n      ttft_ms: 900  # to the first\n      tpot_ms: 30"),
        _fleet("&same " + SLO).replace("clouds:", "  - {model: phi-4-14b, slo: *same, workload: azure-code, "
                                       "demand: {requests_per_s: 1}}\nclouds:"),
        _fleet("&same " + SLO).replace("clouds:", "  - model: phi-4-14b\n    slo: {<<: *same, tpot_ms: 40}\n"
                                       "    workload: azure-code\n    demand: {requests_per_s: 1}\nclouds:"),
        json.dumps(yaml.safe_load(_fleet(SLO))),
        _fleet("{ttft_ms: 900, tpot_ms: 30, keep: {}}"),
        _fleet("{ttft_ms: 900, tpot_ms: 30, keep: throughput}"),
        _fleet("{ttft_ms: 900, tpot_ms: 30, keep: {percentile: null}}"),
    ],
    ids=["inline", "block", "alias", "merge", "json", "empty", "stated", "null"],
)  # fmt: skip
def test_fleets_that_were_planned_for_throughput_stay_so(connection: Connection, spec: str) -> None:
    upgrade(connection, "0017")
    _insert_fleet(connection, spec)
    before = yaml.safe_load(spec)
    upgrade(connection, "0018")
    stored, version = connection.execute(text("SELECT spec, version FROM fleet")).one()
    world = world_of(parse(stored, "spec"))
    assert [served.slo.queueing for served in world.recipe.served] == [False] * len(before["models"])
    is_rewritten = stored != spec
    assert version == 3 + is_rewritten
    events = connection.execute(text("SELECT kind, fleet FROM event")).all()
    assert events == [("fleet.changed", "chat")] * is_rewritten
    assert ("# ours" in stored) == ("# ours" in spec and "keep: {}" not in spec)
    for model in (*before["models"], *(after := yaml.safe_load(stored))["models"]):
        model["slo"].pop("keep", None)
    assert after == before
    downgrade(connection, "0017")
    again = yaml.safe_load(connection.execute(text("SELECT spec FROM fleet")).scalar_one())
    # As the release before reads them.
    assert all(model["slo"]["keep"] in ("throughput", {"percentile": None}) for model in again["models"])


@pytest.mark.parametrize(
    ("slo", "percentile"),
    [
        (SLO, 99),
        ("{ttft_ms: 900, tpot_ms: 30, percentile: 95}", 95),
        ("{ttft_ms: 900, tpot_ms: 30, percentile: 95, keep: {throughput: false}}", 95),
        ("{ttft_ms: 900, tpot_ms: 30, percentile: 95, keep: {percentile: 90}}", 90),
    ],
)
def test_a_fleet_that_promises_a_percentile_does_so_in_the_release_before(
    connection: Connection, slo: str, percentile: float
) -> None:
    upgrade(connection, "0018")
    _insert_fleet(connection, _fleet(slo))
    downgrade(connection, "0017")
    stored = yaml.safe_load(connection.execute(text("SELECT spec FROM fleet")).scalar_one())
    assert stored["models"][0]["slo"]["keep"] == {"percentile": percentile}


def _insert_fleet(connection: Connection, spec: str) -> None:
    row = "'chat', 'default', :spec, '', 'observe', 3, false, now(), now()"
    columns = "name, project, spec, folder, mode, version, ending, created_at, updated_at"
    connection.execute(text(f"INSERT INTO fleet ({columns}) VALUES ({row})"), {"spec": spec})  # noqa: S608


def test_plans_outlive_the_way_up_and_down(connection: Connection) -> None:
    upgrade(connection, "0001")
    connection.execute(text("INSERT INTO snapshot (version, library_version, body) VALUES ('s', 'l', '{}')"))
    connection.execute(
        text("INSERT INTO plan (id, snapshot_version, policy, usd_per_hour, body) VALUES ('p', 's', 'medley', 1, '{}')")
    )
    upgrade(connection)
    assert connection.execute(text("SELECT id, name FROM plan")).all() == [("p", "")]
    downgrade(connection, "0001")
    assert connection.execute(text("SELECT id FROM plan")).scalars().all() == ["p"]


def test_calls_of_runs_are_split_and_put_together_again(connection: Connection) -> None:
    upgrade(connection, "0027")
    call = FlowCall("1.2", CallKind.EMIT, "", b"\x92\x91\x01\x80", ("1.1",), Effects.EXTERNAL)
    whole = msgspec.msgpack.encode(call)
    for statement in (
        "INSERT INTO app_version VALUES ('v', 'p', 'app.py', '', now(), 'me')",
        "INSERT INTO workflow_run (id, project, workflow, version_id, arguments, state, durable, max_calls, created_by,"
        " created_at) VALUES ('r1', 'p', 'w', 'v', '{}', 'done', true, 9, 'me', now())",
    ):
        connection.execute(text(statement))
    made = text(
        "INSERT INTO workflow_call (run_id, path, call, made_at, made_after, state, seq) "
        "SELECT 'r1', '1.' || n, :call, now(), 0, 'done', n FROM generate_series(1, 250) AS n"
    )
    connection.execute(made, {"call": whole})
    connection.commit()
    upgrade(connection)
    assert [each.call for each in calls_of(connection, "r1")] == 250 * [call]
    assert connection.execute(text("SELECT DISTINCT kind FROM workflow_call")).scalar_one() == "emit"
    connection.commit()
    downgrade(connection, "0027")
    assert bytes(connection.execute(text("SELECT DISTINCT call FROM workflow_call")).scalar_one()) == whole
