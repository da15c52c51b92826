"""`medley_api_token`."""

from datetime import UTC, datetime, timedelta

from medley_terraform.client import Json, key_of
from medley_terraform.fleet_file import NAME_LIMITS, limits_of_enumeration
from medley_terraform.report import Report
from medley_terraform.resource import Change, Resource, blank
from medley_terraform.schema import Schema, State
from medley_terraform.types import Attribute, Limits, Scalar, computed

_PATH = "/tokens"
_ASKED = (
    "name",
    "role",
    "project",
    "expires_at",
    "requests_per_minute",
    "tokens_per_minute",
    "concurrent_requests",
    "priority",
)
_KEPT = timedelta(hours=25)
"""How long the API may give its answer again, and then some."""
_RATE = Limits(least=1, most=2**31 - 1, whole=True)


class ApiTokenResource(Resource):
    name = "api_token"
    import_id = "the id, as `medley token list` shows it"
    schema = Schema(
        "An API token for people, programs, or clients of the gateway. It cannot be changed: another name, role, "
        "project, date, limit or priority makes another token, and revokes this one. One that was revoked, or that "
        "expires, is made anew.\n\n"
        "~> **The token itself is in Terraform's state, in the clear, and nowhere else:** Medley keeps its hash only. "
        "Keep the state where only those may read it who may use the token (an encrypted backend, not a repository). "
        "A token that was imported has no `token`: nothing can bring it back.",
        (
            Attribute(
                "name",
                "Who or what will use it, for people. Give each token a name of its own.",
                required=True,
                replaces=True,
                limits=Limits(pattern=r"(?s)(?=.*\S).{1,300}"),
            ),
            Attribute(
                "role",
                "`viewer` looks, `operator` acts, `admin` makes tokens, projects and budgets; `client` "
                "calls models at the gateway, and nothing else.",
                required=True,
                replaces=True,
                limits=limits_of_enumeration("Role"),
            ),
            Attribute(
                "project",
                "The project that its use of models is counted to.",
                default="default",
                replaces=True,
                limits=NAME_LIMITS,
            ),
            Attribute(
                "expires_at",
                "RFC 3339, such as `2027-01-31T00:00:00Z`. Without it, it never does.",
                replaces=True,
                limits=Limits(pattern=r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"),
            ),
            Attribute(
                "requests_per_minute",
                "Requests at each gateway. Without it, no limit.",
                Scalar.NUMBER,
                replaces=True,
                limits=_RATE,
            ),
            Attribute(
                "tokens_per_minute",
                "Tokens of prompts and answers, at each gateway. Without it, no limit.",
                Scalar.NUMBER,
                replaces=True,
                limits=_RATE,
            ),
            Attribute(
                "concurrent_requests",
                "Requests that are open at a gateway at the same time. Without it, no limit.",
                Scalar.NUMBER,
                replaces=True,
                limits=_RATE,
            ),
            Attribute(
                "priority",
                "Of its user's requests, which may ask for a lower one (`service_tier`): higher ones go first.",
                default="standard",
                replaces=True,
                limits=limits_of_enumeration("Priority"),
            ),
            computed("id", "What events and `medley token list` call the token."),
            computed("created_at", "When it was made, RFC 3339."),
            Attribute("token", "What its holder sends. In the state only.", computed=True, sensitive=True),
        ),
    )

    def plan(self, change: Change, report: Report) -> State:  # noqa: ARG002
        return {}

    def create(self, planned: State, report: Report) -> State:
        """A token that a run made before it was killed is this one: nothing that works is left behind unseen. Of two
        resources that ask for the same, each gets its own."""

        def nobodys(made: Json) -> bool:
            return self.session.first("token", made["id"]) and self._lives(
                self.session.client.find(f"{_PATH}/{made['id']}")
            )

        with self.session.one_by_one:
            there = self.session.client.pages(_PATH, {})
            made = self.session.client.create(_PATH, _asked(planned), nobodys)
            self.session.first("token", made["id"])
            for each in there:
                if each["name"] == made["name"] and self._lives(each) and not self.session.was("token", each["id"]):
                    _tell_of(each, report)
        return {name: made[name] for name in ("id", "created_at", "token")}

    def read(self, state: State, report: Report) -> State | None:  # noqa: ARG002
        found = self.session.client.find(f"{_PATH}/{state['id']}")
        if found is None or not self._lives(found):
            return None
        if state["token"] is not None and datetime.now(UTC) - datetime.fromisoformat(found["created_at"]) < _KEPT:
            # It is in the state now: the next request for such a token is for another one, and no copy is kept.
            self.session.client.forget(key_of(_PATH, _asked(state)))
        read = {name: found[name] for name in (*_ASKED, "id", "created_at")} | {"token": state["token"]}
        if _moment(state["expires_at"]) == _moment(found["expires_at"]):
            read["expires_at"] = state["expires_at"]
        return read

    def update(self, prior: State, planned: State, report: Report) -> State:  # noqa: ARG002
        raise AssertionError("every attribute of a token replaces it")

    def delete(self, state: State, report: Report) -> None:  # noqa: ARG002
        self.session.client.delete(f"{_PATH}/{state['id']}")

    def identified(self, identifier: str, report: Report) -> State | None:  # noqa: ARG002
        return blank(self.schema, id=identifier)

    @staticmethod
    def _lives(found: Json | None) -> bool:
        if found is None or found["revoked_at"] is not None:
            return False
        ends = _moment(found["expires_at"])
        return ends is None or ends > datetime.now(UTC)


def _tell_of(namesake: Json, report: Report) -> None:
    """A token whose state was lost still works, and nobody sees it."""
    report.warning(
        f"There is another token {namesake['name']!r}: {namesake['id']}, of {namesake['created_at'][:16]}",
        "It works, and may be of another resource, or of a state that was lost. If nobody is to have it: "
        f"medley token revoke {namesake['id']}",
        ("name",),
    )


def _asked(planned: State) -> Json:
    return {name: planned[name] for name in _ASKED}


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
