"""What would be lost with a model: whoever removes one that serves is asked first."""

from collections.abc import Collection
from typing import Any

from control.api.problem import ApiError
from control.db.database import Database
from control.fleet.live_instances import views_of_fleet


def refuse_loss(database: Database, fleet: str, models: Collection[str], confirmed: Collection[str]) -> None:
    """Raises ApiError 409, with numbers, for models that serve and are not confirmed."""
    if not models:
        return
    lost: dict[str, Any] = {}
    for view in views_of_fleet(database, fleet):
        if view.state == "ready" and view.model in models and view.model not in confirmed:
            of_model = lost.setdefault(view.model, {"instances": 0, "running": 0, "waiting": 0})
            of_model["instances"] += 1
            of_model["running"] += view.running
            of_model["waiting"] += view.waiting
    if not lost:
        return
    told = ", ".join(
        f"{model} ({each['instances']} instances, {each['running']} requests running, {each['waiting']} waiting)"
        for model, each in lost.items()
    )
    query = "&".join(f"confirm={model}" for model in lost)
    detail = f"fleet {fleet!r} serves {told}; they would be drained. Send the request again with ?{query} to do it"
    raise ApiError(409, "serves-traffic", detail, facts={"models": lost})
