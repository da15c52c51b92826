"""Corrections of certificates outlive the process that made them, and go with their fleet."""

from dataclasses import replace
from datetime import UTC, datetime

from control.db.corrections import PostgresCorrections
from control.db.database import Database
from control.db.fleets import PostgresFleets
from policies.correction import Correction

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def test_corrections_are_kept_by_fleet_and_work_class(database: Database) -> None:
    fleets, corrections = PostgresFleets(database), PostgresCorrections(database)
    for name in ("chat", "search"):
        fleets.create(name, "", NOON)
    slow = Correction(0.81, NOON, "98 % kept it", True, 0.9, 3, "of these step times")
    corrections.put("chat", {"m/prefill": slow, "m/decode": Correction(0.9, NOON)})
    corrections.put("search", {"m/prefill": Correction(0.7, NOON)})
    assert corrections.of_fleet("chat") == {"m/decode": Correction(0.9, NOON), "m/prefill": slow}
    given_back = replace(slow, factor=1.0, fell_short_at=None)
    corrections.put("chat", {"m/prefill": given_back})
    assert corrections.of_fleet("chat")["m/prefill"] == given_back
    fleets.remove("chat")
    assert corrections.of_fleet("chat") == {}
    assert len(corrections.of_fleet("search")) == 1
