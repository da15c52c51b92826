"""A recorded hour of the real loop, gone through again: the same policy makes the same plans, another one others."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from control.cli.main import app
from control.db.database import Database, open_database
from control.db.errors import NotStoredError
from control.db.ledger import PostgresLedger
from control.db.libraries import PostgresLibraries
from control.db.past import PostgresPast
from control.ledger.period import Period
from control.simulator.fleet_run import Around
from control.simulator.replay.change import Change
from control.simulator.replay.comparison import Comparison, comparison
from control.simulator.replay.replay import Asked, replay
from control.simulator.replay.span import NotRecordedError
from control.simulator.step_log import StepLog
from templates_lib.values.offer import Market, Offer
from tests.control.simulator.replay.recording import START, Recording, plenty

pytestmark = pytest.mark.slow  # to record the hour takes half a minute, which these tests share

SINCE, UNTIL = START + timedelta(minutes=12), START + timedelta(minutes=38)
LOST_S = 1500.0
LEFT, UNHEARD = START + timedelta(minutes=40), START + timedelta(minutes=90)


def scarce(offer: Offer) -> StepLog:
    """Spot nodes are few, and taken back in one of the two regions."""
    if offer.market is not Market.SPOT:
        return plenty(offer)
    return StepLog((0.0, LOST_S), (2.0, 0.0)) if offer.region == "us-east-2" else StepLog((0.0,), (2.0,))


@pytest.fixture(scope="module")
def recorded(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Database, str]]:
    """40 minutes; then the control plane is away for 40; then nobody hears the gateways for 20."""
    with open_database(module_database_url) as database:
        recording = Recording(database, tmp_path_factory.mktemp("recording"), scarce)
        recording.begin()
        recording.run(4)
        recording.run(4, led=False)
        recording.run(1)
        recording.run(2, heard=False)
        yield database, module_database_url


def again(
    database: Database, folder: Path, change: Change | None = None, since: datetime = SINCE, until: datetime = UNTIL
) -> Comparison:
    around = Around(PostgresLibraries(database), lambda *_: None, time.perf_counter, folder)
    asked = Asked("chat", since, until, None, change or Change(), 0)
    return comparison(replay(database, asked, datetime.now(UTC), folder, around))


def test_the_same_policy_makes_the_same_plans_when_they_were_made(
    recorded: tuple[Database, str], short_tmp: Path
) -> None:
    database, _ = recorded
    found = again(database, short_tmp)
    made = PostgresPast(database).plans("chat", SINCE - timedelta(minutes=11), UNTIL)
    was = [((plan.at - SINCE).total_seconds(), plan.usd_per_hour) for plan in made]
    first = next(n for n, (at_s, _) in enumerate(was) if at_s == found.plans[0][0])
    assert len(found.plans) == len(was) - first > 4
    # A lost node is on record as of when it was missed: a replay misses it some seconds after that.
    lost_s = (START + timedelta(seconds=LOST_S) - SINCE).total_seconds()
    for (at_s, usd), (then_s, then_usd) in zip(found.plans, was[first:], strict=True):
        assert at_s == pytest.approx(then_s, abs=0 if then_s < lost_s else 30)
        # Two plans of one snapshot differ by no more than the gap that the solver was let off with, 0.01 %.
        assert usd == pytest.approx(then_usd, rel=2e-4)
    spent = sum(charge.usd for charge in PostgresLedger(database).charges(Period(SINCE, UNTIL)))
    assert found.happened.usd == pytest.approx(float(spent), abs=0.005)
    assert found.happened.refused > 0
    assert found.happened.failed > 0
    for name in ("launched", "moved", "refused", "offered_requests"):
        assert getattr(found.replayed, name) == getattr(found.happened, name), name
    assert found.replayed.usd == pytest.approx(found.happened.usd, rel=5e-3)
    assert found.replayed.unmet_requests == pytest.approx(found.happened.unmet_requests, rel=5e-3, abs=10)


def test_the_command_compares_prints_and_writes_and_leaves_the_record_alone(
    recorded: tuple[Database, str], tmp_path: Path
) -> None:
    database, url = recorded
    before = PostgresPast(database).events("chat", START, datetime.now(UTC))
    folder = tmp_path / "out"
    options = ["--since", SINCE.isoformat(), "--until", UNTIL.isoformat(), "--on-demand", "--folder", str(folder)]
    done = CliRunner().invoke(app, ["replay", "chat", *options, "--database-url", url, "-o", "json"])
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    happened, replayed = said["happened"], said["replayed"]
    assert sum(step["happened"]["usd"] for step in said["steps"]) == pytest.approx(happened["usd"])
    # Nodes on demand were never refused, and cost more.
    assert said["policy"] == ["on-demand nodes only"]
    assert replayed["refused"] == 0
    assert replayed["usd"] > 1.2 * happened["usd"]
    assert any("ran when the span began" in note for note in said["notes"])
    assert said == json.loads((folder / "replay.json").read_text())
    assert {path.suffix for path in folder.iterdir()} == {".html", ".png", ".json"}
    assert "on-demand nodes only" in (folder / "report.html").read_text()
    assert PostgresPast(database).events("chat", START, datetime.now(UTC)) == before


@pytest.mark.parametrize(
    ("since", "until", "text"),
    [
        (START - timedelta(days=3), START - timedelta(days=2), "was not planned from"),
        (SINCE, LEFT + timedelta(minutes=45), "no plan was made from"),
        (LEFT + timedelta(minutes=41), UNHEARD + timedelta(minutes=18), "no gateway reported demand from"),
        (SINCE, SINCE + timedelta(minutes=5), "too short"),
        (SINCE, datetime.now(UTC) + timedelta(days=1), "still to come"),
    ],
)
def test_a_span_that_is_not_on_record_whole_is_refused(
    recorded: tuple[Database, str], short_tmp: Path, since: datetime, until: datetime, text: str
) -> None:
    with pytest.raises(NotRecordedError, match=text) as refused:
        again(recorded[0], short_tmp, since=since, until=until)
    if text == "no plan was made from":
        assert f"--since {SINCE:%Y-%m-%dT%H:%M} --until" in str(refused.value)


def test_an_unknown_fleet_is_named_with_the_nearest(recorded: tuple[Database, str], short_tmp: Path) -> None:
    around = Around(PostgresLibraries(recorded[0]), lambda *_: None, time.perf_counter, short_tmp)
    with pytest.raises(NotStoredError, match="chat"):
        replay(recorded[0], Asked("chatt", SINCE, UNTIL, None, Change(), 0), UNTIL, short_tmp, around)
