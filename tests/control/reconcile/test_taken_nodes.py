"""A node whose cloud says that it will take it: what it serves is drained ahead, and its successor stands elsewhere."""

from pathlib import Path

from agents.messages.to_hub import Interruption, NodeReport
from control.db.database import Database
from control.db.instances import PostgresInstances
from control.hub.board import Board
from tests.control.reconcile.reconciled import Place, Plane, spec


def announce(board: Board, place: Place) -> str:
    """Every node of the one instance that runs says so; the name of one."""
    (instance,) = PostgresInstances(place.database).living()
    for node in instance.nodes:
        board.joined(node.id, place.seconds)
        board.reported(node.id, NodeReport(instance.id, interruption=Interruption(118.0, "spot interruption")))
    return instance.nodes[0].id


def test_it_is_replaced_from_another_offer_before_it_is_gone(database: Database, tmp_path: Path) -> None:
    place = Place(database, tmp_path)
    place.put(spec())
    plane = Plane(place)
    plane.until_settled()
    assert place.types() == ["cheap"]
    gone = announce(plane.board, place)
    plane.run(5)
    assert "dear" in place.types()
    plane.until_settled()
    assert place.types() == ["dear"]
    assert gone not in {node.name for node in place.cloud.list({}, place.now)}
    assert place.events("offer.taken") == ["spot interruption"]
    steps = [step.reason for step in PostgresInstances(database).recent(100) if step.to_state == "draining"]
    assert steps == [f"{gone} will be taken in 118 s: spot interruption"]
