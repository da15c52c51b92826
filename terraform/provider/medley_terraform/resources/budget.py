"""`medley_budget`."""

from medley_terraform.client import Json
from medley_terraform.failure import Failure
from medley_terraform.fleet_file import NAME_LIMITS
from medley_terraform.report import Report
from medley_terraform.resource import Change, Resource, blank
from medley_terraform.resources.common import ID, VERSION, settled
from medley_terraform.schema import Schema, State
from medley_terraform.types import Attribute, Limits, Scalar
from medley_terraform.unknown import UNKNOWN

_FIELDS = {
    "usd_per_hour": "usd_per_hour_limit",
    "usd_per_month": "usd_per_month_limit",
    "floor_usd_per_hour": "floor_usd_per_hour",
}
"""Attribute: field of the API."""
_DOLLARS = Limits(above=0, most=1e9)


class BudgetResource(Resource):
    name = "budget"
    import_id = "`fleet/NAME` or `project/NAME`"
    schema = Schema(
        "What a fleet or a project may spend. Plans keep to it, and so does what carries them out; a fleet that needs "
        "more fails to plan, with the numbers.",
        (
            Attribute(
                "fleet",
                "Whose budget it is: `medley_fleet.NAME.id`. Either this or `project`.",
                replaces=True,
                limits=NAME_LIMITS,
            ),
            Attribute(
                "project",
                "Whose budget it is: `medley_project.NAME.id`, for all of its fleets together.",
                replaces=True,
                limits=NAME_LIMITS,
            ),
            Attribute(
                "usd_per_hour",
                "Dollars an hour. At least one of this and `usd_per_month`.",
                Scalar.NUMBER,
                limits=_DOLLARS,
            ),
            Attribute("usd_per_month", "Dollars of a calendar month, UTC.", Scalar.NUMBER, limits=_DOLLARS),
            Attribute(
                "floor_usd_per_hour",
                "Dollars an hour that are granted whatever was spent.",
                Scalar.NUMBER,
                default=0,
                limits=Limits(least=0, most=1e9),
            ),
            ID,
            VERSION,
        ),
    )

    def validate(self, config: State, report: Report) -> None:
        if config["fleet"] is not None and config["project"] is not None:
            report.error("A budget is of one thing", "Give either fleet or project.", ("project",))
        if config["fleet"] is None and config["project"] is None:
            report.error("Whose budget is it?", "Give fleet or project.", ("fleet",))
        if config["usd_per_hour"] is None and config["usd_per_month"] is None:
            report.error("This limits nothing", "Give usd_per_hour or usd_per_month.", ("usd_per_hour",))

    def plan(self, change: Change, report: Report) -> State:
        """A limit below what the fleet's accepted plan costs is warned of: it will have to shrink."""
        limit, fleet = change.planned["usd_per_hour"], change.planned["fleet"]
        if isinstance(limit, int | float) and isinstance(fleet, str) and self.session.connected is not None:
            costs = self._accepted_usd_per_hour(fleet)
            if costs is not None and costs > limit:
                report.warning(
                    f"Fleet {fleet} costs {costs:.2f} $/h, above the new limit of {limit:.2f} $/h",
                    "After apply its plans are cut to the limit: demand may go unmet.",
                    ("usd_per_hour",),
                )
        return {"version": UNKNOWN}

    def create(self, planned: State, report: Report) -> State:  # noqa: ARG002
        path, body = _path(planned), _body(planned)
        try:
            return self._put(path, body, 0)
        except Failure as failure:
            if failure.name != "precondition-failed":
                raise
            there = path.removeprefix("/budgets/")
            detail = f"{there} has a budget already. To manage it: terraform import medley_budget.NAME '{there}'"
            raise Failure("conflict", detail) from None

    def read(self, state: State, report: Report) -> State | None:  # noqa: ARG002
        found = self.session.client.find(_path(state))
        return None if found is None else _shown(found)

    def update(self, prior: State, planned: State, report: Report) -> State:  # noqa: ARG002
        return self._put(_path(planned), _body(planned), prior["version"])

    def delete(self, state: State, report: Report) -> None:  # noqa: ARG002
        self.session.client.delete(_path(state), state["version"])

    def identified(self, identifier: str, report: Report) -> State | None:
        scope, _, name = identifier.partition("/")
        if scope not in ("fleet", "project") or not name:
            report.error("This is no id of a budget", f"It is {identifier!r}; give {self.import_id}.")
            return None
        return blank(self.schema, **{scope: name})

    def _put(self, path: str, body: Json, version: int) -> State:
        client = self.session.client
        return _shown(
            settled(
                lambda: client.put(path, body, version),
                lambda: client.find(path),
                lambda there: all(there[field] == value for field, value in body.items()),
            )
        )

    def _accepted_usd_per_hour(self, fleet: str) -> float | None:
        found = self.session.client.find(f"/fleets/{fleet}")
        accepted = found and found["plan"]["accepted"]
        plan = self.session.client.find(f"/plans/{accepted}") if accepted else None
        return None if plan is None else float(plan["usd_per_hour"])


def _path(state: State) -> str:
    scope = "fleet" if state["fleet"] is not None else "project"
    return f"/budgets/{scope}/{state[scope]}"


def _body(planned: State) -> Json:
    return {field: planned[name] for name, field in _FIELDS.items()}


def _shown(found: Json) -> State:
    return {
        "id": f"{found['scope']}/{found['name']}",
        "fleet": found["name"] if found["scope"] == "fleet" else None,
        "project": found["name"] if found["scope"] == "project" else None,
        "version": found["version"],
        **{name: found[field] for name, field in _FIELDS.items()},
    }
