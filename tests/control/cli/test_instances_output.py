"""`medley instances`, `events` and `status`: on a database with nothing in it and on one with a fleet."""

import json
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from control.cli import instances, top
from control.cli.main import app
from control.db.database import Database
from control.db.instances import PostgresInstances
from control.lifecycle.event import Event, EventKind
from control.lifecycle.history import PastTransition
from control.lifecycle.node_load import NodeLoad
from control.lifecycle.state import InstanceState
from templates_lib.values.instance import Instance
from tests.control.cloud.fake_cloud import FakeCloud
from tests.control.executor.fleets import START as NODE_START
from tests.control.executor.fleets import fleet, offer
from tests.control.fleet.fleets import MARKET, ZONE, template
from tests.control.lifecycle.worlds import START
from tests.http_endpoint import Said, running, serving

IDS = ("i0a1a2a3a4a5a", "i0b1b2b3b4b5b")


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    monkeypatch.setenv("MEDLEY_HOME", str(tmp_path / "home"))


def run(database_url: str, *arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments, "--database-url", database_url])


@pytest.fixture
def filled(database: Database) -> Database:
    """Two instances of a plan that was thrown away: one loads and has one node of two, the other has failed."""
    kept, medley = PostgresInstances(database), fleet(database, FakeCloud("fake", {"small": 4}))
    for name in IDS:
        wish = Instance(name, template().id, ZONE, MARKET, InstanceState.REQUESTED, (), fleet="f")
        kept.request(wish, template(), "plan-that-is-gone", START)
        kept.apply(name, Event(EventKind.PROVISION, "its nodes are to be rented"), START)
    node = medley.executor.rent(IDS[0], 0, offer(), NODE_START)
    medley.nodes.heard_of({node.name: NodeLoad(0.25, 300, "loading", 2, 1, 24, 18)}, START + timedelta(hours=1))
    kept.apply(IDS[1], Event(EventKind.BROKE, "no offer is left"), START)
    return database


def test_nothing_on_record_is_said_so(database: Database, database_url: str) -> None:
    assert "No instance runs" in run(database_url, "instances").stdout
    assert json.loads(run(database_url, "instances", "-o", "json").stdout) == []
    assert run(database_url, "events").stdout == ""
    assert json.loads(run(database_url, "events", "-o", "json").stdout) == []
    status = run(database_url, "status")
    assert "No fleet runs" in status.stdout
    assert "no gateway runs here; name one with --gateway" in status.stderr
    assert json.loads(run(database_url, "status", "-o", "json").stdout) == {
        "clouds": [],
        "fleets": [],
        "promises": {},
        "trouble": {},
    }


def test_an_instance_is_shown_with_every_place_and_what_is_known_of_it(filled: Database, database_url: str) -> None:
    first, second = json.loads(run(database_url, "instances", "-o", "json").stdout)
    assert (first["id"], first["fleet"], first["state"]) == (IDS[0], "f", "provisioning")
    assert (first["zone"], first["running"], first["waiting"], first["kv_used"]) == (ZONE, 2, 1, 0.25)
    assert [(n["stage"], n["first_layer"], n["last_layer"], n["kv_blocks"]) for n in first["nodes"]] == [
        (0, 0, 3, 24),
        (1, 4, 5, 24),
    ]
    heard, missing = first["nodes"]
    assert (heard["name"], heard["cpu_share"], heard["memory_mib"]) == (f"medley-{IDS[0]}-0-0", 0.25, 300)
    assert heard["last_heartbeat"] == (START + timedelta(hours=1)).isoformat()
    assert (missing["name"], missing["cpu_share"], missing["last_heartbeat"]) == ("", None, "")
    assert (second["state"], second["kv_used"], [n["name"] for n in second["nodes"]]) == ("failed", None, ["", ""])
    table = run(database_url, "instances").stdout
    assert [line.split()[0] for line in table.splitlines() if line.startswith("i0")] == list(IDS)
    assert "0-3" in table
    assert "2+1" in table


def test_events_are_told_in_order_and_of_one_where_it_is_named(filled: Database, database_url: str) -> None:
    of_all = json.loads(run(database_url, "events", "-o", "json").stdout)
    assert [step["sequence"] for step in of_all] == sorted(step["sequence"] for step in of_all)
    assert len(of_all) == 5
    of_one = json.loads(run(database_url, "events", IDS[1], "-o", "json").stdout)
    assert [(s["from_state"], s["to_state"], s["reason"]) for s in of_one] == [
        (None, "requested", "plan plan-that-is-gone"),
        ("requested", "provisioning", "its nodes are to be rented"),
        ("provisioning", "failed", "no offer is left"),
    ]
    last = run(database_url, "events", IDS[1], "--limit", "1").stdout
    assert last == f"2026-11-21 12:00:00  {IDS[1]}  provisioning -> failed: no offer is left\n"
    assert json.loads(run(database_url, "events", "--limit", "2", "-o", "json").stdout) == of_all[-2:]


def test_an_instance_that_is_not_on_record_is_an_error_with_the_nearest(filled: Database, database_url: str) -> None:
    wrong = IDS[0][:-1] + "x"
    failed = run(database_url, "events", wrong)
    assert failed.exit_code == 1
    assert failed.stderr == f"medley: error: instance {wrong!r} is not stored; the nearest is {IDS[0]!r}\n"
    assert failed.stdout == ""


def test_a_fleet_whose_plan_was_thrown_away_has_no_status_and_its_instances_are_seen(
    filled: Database, database_url: str
) -> None:
    assert json.loads(run(database_url, "status", "-o", "json").stdout) == {
        "clouds": [],
        "fleets": [],
        "promises": {},
        "trouble": {},
    }
    assert {view["model"] for view in json.loads(run(database_url, "instances", "-o", "json").stdout)} == {"tiny"}


def test_one_instance_is_shown_with_its_nodes_and_its_history(filled: Database, database_url: str) -> None:
    told = json.loads(run(database_url, "instances", "show", IDS[1][:4], "-o", "json").stdout)
    assert (told["instance"]["id"], told["instance"]["state"]) == (IDS[1], "failed")
    assert [step["to_state"] for step in told["history"]] == ["requested", "provisioning", "failed"]
    shown = run(database_url, "instances", "show", IDS[0])
    assert shown.exit_code == 0, shown.output
    assert [line.split()[1] for line in shown.stdout.splitlines() if line.lstrip()[:1] in ("0", "1")] == ["0-3", "4-5"]
    assert "2026-11-21 13:00:00" in shown.stdout, "when its node was last heard of"
    assert "requested -> provisioning" in shown.stdout
    assert run(database_url, "instances", "list").stdout == run(database_url, "instances").stdout


def test_steps_are_followed_until_the_instance_is_gone(
    filled: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, coming = PostgresInstances(filled), [EventKind.RELEASE, EventKind.NODES_GONE]

    def time_passes(_: float) -> None:
        kept.apply(IDS[0], Event(EventKind.BROKE, "of another"), START)
        kept.apply(IDS[1], Event(coming.pop(0), "a test"), START)

    monkeypatch.setattr(instances.time, "sleep", time_passes)
    done = run(database_url, "events", IDS[1], "--follow", "--limit", "1")
    assert done.exit_code == 0, done.output
    ends = [line.split("  ")[2] for line in done.stdout.splitlines()]
    assert ends == [
        "provisioning -> failed: no offer is left",
        "failed -> terminating: a test",
        "terminating -> terminated: a test",
    ]


def test_the_last_step_is_told_when_it_is_taken_between_two_looks(
    filled: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, coming = PostgresInstances(filled), [EventKind.RELEASE, EventKind.NODES_GONE]
    steps_after = PostgresInstances.steps_after

    def then_one_more(self: PostgresInstances, after: int, most: int) -> list[PastTransition]:
        read = steps_after(self, after, most)
        if coming:
            kept.apply(IDS[1], Event(coming.pop(0), "a test"), START)
        return read

    monkeypatch.setattr(instances.time, "sleep", lambda _: None)
    monkeypatch.setattr(PostgresInstances, "steps_after", then_one_more)
    done = run(database_url, "events", IDS[1], "--follow", "--limit", "1")
    ends = [line.split("  ")[2] for line in done.stdout.splitlines()]
    assert ends[1:] == ["failed -> terminating: a test", "terminating -> terminated: a test"]


def test_options_before_a_subcommand_hold_for_it(filled: Database, database_url: str) -> None:
    before = ("instances", "-o", "json", "--database-url", database_url)
    told = CliRunner().invoke(app, [*before, "show", IDS[1]])
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["instance"]["id"] == IDS[1]
    listed = CliRunner().invoke(app, [*before, "list", "-o", "yaml"])
    assert listed.stdout == run(database_url, "instances", "-o", "yaml").stdout


GATEWAY = """\
medley_gateway_output_tokens_total{model="tiny"} %d
medley_gateway_time_to_first_token_seconds_bucket{le="0.5",model="tiny"} %d
medley_gateway_time_to_first_token_seconds_bucket{le="+Inf",model="tiny"} %d
"""


class _Busy(BaseHTTPRequestHandler):
    """A gateway that has made 30 tokens more, and answered two requests, whenever it is asked."""

    asked = 0

    def do_GET(self) -> None:
        _Busy.asked += 1
        body = (GATEWAY % (30 * self.asked, 2 * self.asked, 2 * self.asked)).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


def test_rates_are_of_the_time_between_two_looks(
    filled: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(top.time, "sleep", lambda _: None)
    with running(HTTPServer(("127.0.0.1", 0), _Busy)) as url:
        look = json.loads(run(database_url, "top", "--gateway", url, "-o", "json").stdout)
        assert [view["id"] for view in look["instances"]] == list(IDS)
        rates = look["rates"]["tiny"]
        assert rates["tokens_per_s"] == pytest.approx(15 * rates["requests_per_s"])
        assert 0 < rates["ttft_ms"]["p50"] <= 500
        assert rates["tpot_ms"]["p50"] is None

        once = run(database_url, "top", "--gateway", url)
        assert once.exit_code == 0, once.output
        assert all(name in once.stdout for name in IDS), "without a terminal, one look"

        looks = iter((None, None))

        def time_passes(_: float) -> None:
            if next(looks, 0) == 0:
                raise KeyboardInterrupt

        monkeypatch.setattr(top.time, "sleep", time_passes)
        monkeypatch.setattr(top, "_renews", lambda _: True)
        shown = run(database_url, "top", "--gateway", url)
    assert shown.exit_code == 0, shown.output
    assert all(name in shown.stdout for name in IDS)


@pytest.mark.parametrize("away", [1, 2])
def test_no_rates_are_shown_unless_the_gateway_answered_at_both_looks(
    filled: Database, database_url: str, monkeypatch: pytest.MonkeyPatch, away: int
) -> None:
    monkeypatch.setattr(top.time, "sleep", lambda _: None)
    figures = (GATEWAY % (3000, 200, 200)).encode()
    with serving(lambda _: Said(figures, 503 if len(endpoint.asked) == away else 200)) as endpoint:
        look = json.loads(run(database_url, "top", "--gateway", endpoint.url, "-o", "json").stdout)
    assert len(endpoint.asked) == 2
    assert look["rates"] is None


class _Odd(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n\xff<html>{" if "html" in self.path else b"SSH-2.0\r\n")

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def odd_server() -> Iterator[str]:
    with running(HTTPServer(("127.0.0.1", 0), _Odd)) as url:
        yield url


def test_a_gateway_that_is_none_is_said_so_and_the_rest_is_shown(
    filled: Database, database_url: str, odd_server: str
) -> None:
    for url in ("http://127.0.0.1:1", odd_server, f"{odd_server}/html"):
        status = run(database_url, "status", "-o", "json", "--gateway", url)
        assert status.exit_code == 0
        assert json.loads(status.stdout) == {"clouds": [], "fleets": [], "promises": {}, "trouble": {}}
        assert f"gateway {url} does not answer with its metrics" in status.stderr
        assert "Traceback" not in status.stderr
    refused = run(database_url, "status", "--gateway", "localhost:8000")
    assert refused.exit_code == 1
    assert "'localhost:8000' is no URL" in refused.stderr
