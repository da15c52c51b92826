"""Plan for a stated rate instead of the forecast."""

from datetime import datetime

from control.actions.context import ActionContext
from control.actions.refusal import WrongFieldError
from control.db.demand_overrides import Override, PostgresDemandOverrides
from control.db.errors import NotStoredError
from control.db.fleets import PostgresFleets
from control.fleet_file.document import parse
from templates_lib.values.nearest_name import nearest_name


def override_demand(
    act: ActionContext, fleet: str, model: str, requests_per_s: float, expires_at: datetime, reason: str
) -> Override:
    """Plan for this rate until it expires, in place of an earlier override. Raises NotStoredError, WrongFieldError."""
    with act.as_one() as one:
        spec = parse(PostgresFleets(one.database).load(fleet).spec, "spec").value
        listed = (*spec.get("models", ()), *spec.get("apps", ()))
        names = {str(each.get("name") or each.get("model")) for each in listed}
        if model not in names:
            raise NotStoredError(f"fleet {fleet!r} has no model {model!r}; {nearest_name(model, names)}")
        new = Override(model, requests_per_s, act.actor, reason, act.now, expires_at)
        try:
            PostgresDemandOverrides(one.database).set(fleet, new)
        except ValueError as error:
            raise WrongFieldError("expires_at", str(error)) from None
        what = f"set the demand of {model} to {requests_per_s:g} requests/s until {expires_at:%Y-%m-%d %H:%M %Z}"
        one.record("demand.overridden", f"{what}: {reason}", model, fleet)
        return new


def end_override(act: ActionContext, fleet: str, model: str) -> None:
    """Plan for the forecast, or the rate of the spec, again. Raises NotStoredError where no override is in force."""
    with act.as_one() as one:
        PostgresFleets(one.database).load(fleet)
        if not PostgresDemandOverrides(one.database).end(fleet, model, act.now):
            raise NotStoredError(f"the demand of {model!r} in fleet {fleet!r} is not overridden")
        one.record("demand.forecast", f"ended the override of {model}", model, fleet)
