"""A backup, what happens after it, and the control plane that starts from it: nodes are adopted, replaced or ended."""

from pathlib import Path

import pytest

from control.db.backup import back_up, restore
from control.db.database import Database
from control.db.errors import BackupError
from control.db.instances import PostgresInstances
from tests.control.reconcile.reconciled import Place, Plane, spec


def test_a_restored_control_plane_adopts_replaces_and_ends(database: Database, tmp_path: Path) -> None:
    place = Place(database, tmp_path)
    place.put(spec(rate=1.2))
    before = Plane(place)
    before.until_settled()
    wanted = len(place.states())
    assert wanted > 1
    back_up(database, tmp_path / "backup")
    assert (tmp_path / "backup").stat().st_mode & 0o077 == 0

    # After the backup one node is lost, and more is launched.
    lost, *stayed = [node.name for node in place.cloud.list({}, place.now)]
    place.cloud.preempt(lost)
    place.put(spec(rate=3.0))
    before.run(3)
    before.until_settled()
    assert len(place.cloud.list({}, place.now)) > wanted
    before.leader.resign()

    restore(database, tmp_path / "backup")
    after = Plane(place, "restored")
    after.until_settled()
    there = {node.name for node in place.cloud.list({}, place.now)}
    on_record = {node.id for i in PostgresInstances(database).living() for node in i.nodes}
    assert there == on_record
    assert len(there) == wanted
    assert set(stayed) < there
    assert lost not in there


def test_a_backup_that_is_none_changes_nothing(database: Database, tmp_path: Path) -> None:
    place = Place(database, tmp_path)
    place.put(spec())
    (tmp_path / "rubbish").write_bytes(b"rubbish")
    for file in (tmp_path / "rubbish", tmp_path / "missing"):
        with pytest.raises(BackupError, match=file.name if file.name == "missing" else "pg_restore"):
            restore(database, file)
    assert [record.name for record in place.fleets.all()] == ["chat"]
