"""`medley_project`."""

from medley_terraform.client import Json
from medley_terraform.failure import Failure
from medley_terraform.fleet_file import NAME_LIMITS
from medley_terraform.report import Report
from medley_terraform.resource import Change, Resource
from medley_terraform.resources.common import ID, VERSION, already_there, settled
from medley_terraform.schema import Schema, State
from medley_terraform.types import Attribute, Limits, Scalar
from medley_terraform.unknown import UNKNOWN

_DRAIN_LOOK_S = 3.0
_DRAIN_LOOKS = 300
_RATE = Limits(least=1, most=2**31 - 1, whole=True)
_LIMITS = {
    "requests_per_minute": "Requests",
    "tokens_per_minute": "Tokens of prompts and answers",
    "concurrent_requests": "Requests that are open at the same time",
}
"""Without one, no limit."""


class ProjectResource(Resource):
    name = "project"
    import_id = "the name"
    schema = Schema(
        "A project: what fleets, API tokens and budgets belong to, and what costs are told by.",
        (
            Attribute(
                "name",
                "Up to 63 letters, digits, dots, hyphens and underscores.",
                required=True,
                replaces=True,
                limits=NAME_LIMITS,
            ),
            Attribute(
                "description", "For people; up to 300 characters.", default="", limits=Limits(pattern=r"(?s).{0,300}")
            ),
            *(
                Attribute(name, f"{text}, of all its tokens together, at each gateway.", Scalar.NUMBER, limits=_RATE)
                for name, text in _LIMITS.items()
            ),
            ID,
            VERSION,
        ),
    )

    def plan(self, change: Change, report: Report) -> State:  # noqa: ARG002
        return {"version": UNKNOWN}

    def create(self, planned: State, report: Report) -> State:  # noqa: ARG002
        body = {"name": planned["name"], **_asked(planned)}

        def as_made(made: Json) -> bool:
            found = self.session.client.find(f"/projects/{made['name']}")
            return found is not None and all(found[each] == made[each] for each in ("description", "limits"))

        try:
            made = self.session.client.create("/projects", body, as_made)
        except Failure as failure:
            raise already_there("medley_project", planned["name"], failure) from None
        return _shown(made)

    def read(self, state: State, report: Report) -> State | None:  # noqa: ARG002
        found = self.session.client.find(f"/projects/{state['name']}")
        return None if found is None else _shown(found)

    def update(self, prior: State, planned: State, report: Report) -> State:  # noqa: ARG002
        path, asked = f"/projects/{planned['name']}", _asked(planned)
        return _shown(
            settled(
                lambda: self.session.client.put(path, asked, prior["version"]),
                lambda: self.session.client.find(path),
                lambda there: all(there[name] == value for name, value in asked.items()),
            )
        )

    def delete(self, state: State, report: Report) -> None:  # noqa: ARG002
        """Waits for fleets that are on their way out: their instances are being drained."""
        path, client = f"/projects/{state['name']}", self.session.client
        for _ in range(_DRAIN_LOOKS):
            try:
                client.delete(path, state["version"])
                return
            except Failure as failure:
                fleets = client.pages("/fleets", {"project": state["name"]})
                if failure.name != "conflict" or not all(fleet["ending"] for fleet in fleets):
                    raise
            client.pause(_DRAIN_LOOK_S)
        raise Failure("still-there", f"fleets of project {state['name']} are still being drained: destroy it later")


def _asked(planned: State) -> Json:
    return {"description": planned["description"], "limits": {name: planned[name] for name in _LIMITS}}


def _shown(found: Json) -> State:
    shown = {name: found[name] for name in ("name", "description", "version")} | {"id": found["name"]}
    return shown | {name: found["limits"][name] for name in _LIMITS}
