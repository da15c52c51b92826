"""Models that serve: a line that was lost from a spec must not drain them unnoticed."""

from collections.abc import Collection

from control.actions.refusal import LosesTrafficError, LostTraffic
from control.db.database import Database
from control.fleet.live_instances import views_of_fleet


def refuse_loss(database: Database, fleet: str, staying: Collection[str], confirmed: Collection[str] | None) -> None:
    """Raises LosesTrafficError for models with ready instances that neither stay nor are confirmed; None: all are."""
    if confirmed is None:
        return
    lost: dict[str, LostTraffic] = {}
    for view in views_of_fleet(database, fleet):
        if view.state == "ready" and view.model not in {*staying, *confirmed}:
            so_far = lost.get(view.model, LostTraffic())
            lost[view.model] = LostTraffic(
                so_far.instances + 1, so_far.running + view.running, so_far.waiting + view.waiting
            )
    if lost:
        raise LosesTrafficError(fleet, lost)
