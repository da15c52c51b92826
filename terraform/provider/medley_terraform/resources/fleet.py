"""`medley_fleet`."""

from typing import Any

from medley_terraform.client import Json, key_of
from medley_terraform.failure import Failure
from medley_terraform.failure_report import report_failure
from medley_terraform.fleet import dry_run
from medley_terraform.fleet.dry_run import Expected
from medley_terraform.fleet.rules import check_models
from medley_terraform.fleet.spec import PARTS, SPEC, document_of, path_of, served, state_of
from medley_terraform.fleet_file import NAME_LIMITS, limits_of_enumeration
from medley_terraform.report import Report
from medley_terraform.resource import Change, Resource
from medley_terraform.resources.common import ID, VERSION, already_there, settled
from medley_terraform.schema import Schema, State
from medley_terraform.types import Attribute, Collection, Many, Scalar, computed
from medley_terraform.unknown import UNKNOWN, Unknown, is_known
from medley_terraform.values import same

_PLANNED = (*PARTS, "project")
_EXPECTED = ("expected_usd_per_hour", "expected_nodes", "expected_unmet", "expected_at")
_DECISIVE = frozenset({"invalid", "over-budget", "cannot-be-planned"})
"""Refusals that say something of the fleet; others say that nobody could look."""
_OWN = frozenset({"allow_traffic_loss", "preflight"})
"""Attributes that say how it is applied, and that the control plane does not keep."""
_DRAIN_LOOK_S = 3.0
_DRAIN_LOOKS = 300


class FleetResource(Resource):
    name = "fleet"
    import_id = "the name"
    schema = Schema(
        "A fleet: models, what was promised of them, their traffic, and where GPUs may be rented for them. Medley "
        "plans the cheapest nodes that serve it, and keeps them.\n\n"
        "At plan time the control plane solves what the change would cost, and rents nothing: "
        "`expected_usd_per_hour` shows the dollars before and after, and a fleet over its budget, an unknown model or "
        "a region that does not exist is an error of the plan.",
        (
            Attribute(
                "name",
                "Up to 63 letters, digits, dots, hyphens and underscores.",
                required=True,
                replaces=True,
                limits=NAME_LIMITS,
            ),
            Attribute(
                "project",
                "The project that it belongs to: `medley_project.NAME.id`.",
                default="default",
                limits=NAME_LIMITS,
            ),
            Attribute(
                "mode",
                "`observe` plans and touches nothing; `approve` acts on plans that somebody approved; "
                "`auto` acts on all: it rents.",
                default="observe",
                limits=limits_of_enumeration("FleetMode"),
            ),
            *SPEC.attributes,
            Attribute(
                "allow_traffic_loss",
                "Whether a model may be taken out, or the fleet be destroyed, while it serves. Apply it before.",
                Scalar.BOOL,
                default=False,
            ),
            Attribute(
                "preflight",
                "Whether the control plane looks at where the weights of the models are before the fleet is to act: "
                "what nodes could not fetch is an error of the apply.",
                Scalar.BOOL,
                default=True,
            ),
            ID,
            VERSION,
            computed(
                "expected_usd_per_hour",
                "What the plan for this spec costs: rent and traffic, at the prices and the demand of `expected_at`.",
                Scalar.NUMBER,
            ),
            computed("expected_nodes", "How many nodes it has.", Scalar.NUMBER),
            computed(
                "expected_unmet",
                "Requests per second that it does not serve, by demand; empty: it serves all.",
                Many(Collection.MAP, Scalar.NUMBER),
            ),
            computed(
                "expected_at",
                "When that was solved: at the last change that Terraform planned. `medley_plan` asks anew.",
            ),
        ),
    )

    def validate(self, config: State, report: Report) -> None:
        check_models(config["models"], report)

    def plan(self, change: Change, report: Report) -> State:
        said: State = {"version": UNKNOWN} if change.changed - _OWN else {}
        if not change.changed & set(_PLANNED):
            return said
        said |= dict.fromkeys(_EXPECTED, UNKNOWN)
        spec = {name: change.planned[name] for name in ("name", *PARTS)}
        if self.session.connected is None or not is_known(spec):
            return said
        self._refuse_loss(change, report)
        found = self._solved(change, report)
        if found is None or report.failed:
            return said
        if found.unmet:
            report.warning(f"Fleet {spec['name']} would not serve all", f"It would cost {found.summary}.", ("models",))
        return said | _shown_expected(found)

    def create(self, planned: State, report: Report) -> State:  # noqa: ARG002
        name, client = planned["name"], self.session.client
        body = _body(planned)
        self._wait_gone(name)

        def as_made(made: Json) -> bool:
            found = client.find(f"/fleets/{made['name']}")
            return found is not None and not found["ending"] and _is(found, planned)

        try:
            made = client.create("/fleets", body, as_made)
        except Failure as failure:
            raise already_there("medley_fleet", name, failure) from None
        return {"id": name, "version": made["version"]}

    def read(self, state: State, report: Report) -> State | None:
        name = state["name"]
        found = self.session.client.find(f"/fleets/{name}")
        self.session.first("read fleet", name)
        if found is None:
            return None
        if found["ending"]:
            report.warning(f"Fleet {name} is being ended", "Its instances are drained; then it is gone.")
            return None
        spec, beyond = state_of(found["spec"])
        if beyond:
            report.warning(
                f"Fleet {name} says more than Terraform can",
                f"{', '.join(beyond)} came from a spec file; the next apply that changes the fleet takes that out.",
            )
        expected = {each: state[each] for each in _EXPECTED}
        if state["version"] is None:  # imported
            expected |= self._newest_expected(name, found["updated_at"])
        own = {"id": name, "name": name, "allow_traffic_loss": bool(state["allow_traffic_loss"])}
        own["preflight"] = state["preflight"] is not False  # an imported one has none yet
        return own | spec | expected | {each: found[each] for each in ("project", "mode", "version")}

    def update(self, prior: State, planned: State, report: Report) -> State:  # noqa: ARG002
        path, client = f"/fleets/{planned['name']}", self.session.client
        if all(same(self.schema.shape.named(n).type, prior[n], planned[n]) for n in (*_PLANNED, "mode")):
            return {}
        gone = sorted(set(served(prior)) - set(served(planned)))
        query = {"confirm": gone} if gone and planned["allow_traffic_loss"] else None
        try:
            changed = settled(
                lambda: client.put(path, _body(planned), prior["version"], query),
                lambda: client.find(path),
                lambda there: _is(there, planned),
            )
        except Failure as failure:
            raise _serves(failure) from None
        return {"version": changed["version"]}

    def delete(self, state: State, report: Report) -> None:  # noqa: ARG002
        path, client = f"/fleets/{state['name']}", self.session.client
        query = {"confirm": served(state)} if state["allow_traffic_loss"] else None
        try:
            gone = client.delete(path, state["version"], query)
        except Failure as failure:
            raise _serves(failure) from None
        if not gone:
            self._wait_gone(state["name"])

    def _solved(self, change: Change, report: Report) -> Expected | None:
        """Return what the change would cost; None, and the reason in the report, where that cannot be said.

        Terraform plans a change again while it applies it, and refuses other numbers than those that were looked at:
        there the same question gets the answer that it got before. What was read in this process is being planned, and
        solved at the prices of now.
        """
        planned, prior = change.planned, change.prior
        looked_at = prior is not None and self.session.was("read fleet", planned["name"])
        try:
            asked, held_to = self._begin(planned, looked_at), self._within_project(planned, looked_at)
            before = self._begin(prior, looked_at) if prior is not None and looked_at else ""
            found = self._outcome(asked)
            if held_to:
                self._outcome(held_to)
        except Failure as failure:
            if failure.name in _DECISIVE:
                _tell(failure, planned, report)
            elif failure.name in ("took-too-long", "worker-died", "internal", "cancelled"):
                report.warning(f"What fleet {planned['name']} would cost is not known", failure.said)
            else:
                raise
            return None
        if prior is not None and before:
            self._compare(prior, before, found, report)
        return found

    def _compare(self, prior: State, before: str, after: Expected, report: Report) -> None:
        try:
            now = self._outcome(before)
        except Failure:  # over a budget that the change raises, say: the state has what it cost when it was planned
            return
        difference = after.usd_per_hour - now.usd_per_hour
        told = f"{now.usd_per_hour:.2f} $/h before, {after.usd_per_hour:.2f} $/h after ({difference:+.2f} $/h)"
        report.warning(
            f"Fleet {prior['name']}: {told}",
            f"As it is, it would cost {now.summary}; with this change, {after.summary}. Both are solved for the prices "
            "and the demand of now.",
        )

    def _within_project(self, planned: State, looked_at: bool) -> str:
        """The least cost does not depend on what may be spent, and the project may be known only while it is applied:
        so whether its budget allows for the fleet is a question of its own."""
        project = planned["project"]
        if isinstance(project, Unknown) or self.session.client.find(f"/budgets/project/{project}") is None:
            return ""
        return self._begin(planned, looked_at, project)

    def _begin(self, state: State, looked_at: bool, project: str = "") -> str:
        body = {"spec": document_of(state), "project": project, "baselines": False}
        anew = looked_at and self.session.first("dry run", key_of("/plans", body))
        return dry_run.begin(self.session.client, body, anew=anew)

    def _outcome(self, operation: str) -> Expected:
        return dry_run.outcome(self.session.client, operation, self.session.plan_timeout_s)

    def _refuse_loss(self, change: Change, report: Report) -> None:
        """A model that serves and is to go: said at plan time, as apply would be refused."""
        if change.prior is None or change.planned["allow_traffic_loss"]:
            return
        gone = set(served(change.prior)) - set(served(change.planned))
        if not gone:
            return
        ready = self.session.client.pages("/instances", {"fleet": change.planned["name"], "state": "ready"})
        lost = sorted({each["model"] for each in ready} & gone)
        for model in lost:
            count = sum(each["model"] == model for each in ready)
            report.error(
                f"Model {model} serves",
                f"{count} instances of it are ready and would be drained. Apply allow_traffic_loss = true first.",
                ("models",),
            )

    def _wait_gone(self, name: str) -> None:
        """A fleet that is ending has the name until its last instance is drained."""
        for _ in range(_DRAIN_LOOKS):
            found = self.session.client.find(f"/fleets/{name}")
            if found is None or not found["ending"]:
                return
            self.session.client.pause(_DRAIN_LOOK_S)
        raise Failure("still-there", f"fleet {name} is still being drained: is `medley reconcile` running?")

    def _newest_expected(self, name: str, changed_at: str) -> State:
        """Return the expectations of the newest plan for the spec as it is; empty: there is none."""
        newest: list[Any] = self.session.client.get("/plans", {"fleet": name, "limit": 1})["items"]
        return _shown_expected(Expected(newest[0])) if newest and newest[0]["created_at"] >= changed_at else {}


def _shown_expected(found: Expected) -> State:
    values = (found.usd_per_hour, found.nodes, found.unmet, found.plan["created_at"])
    return dict(zip(_EXPECTED, values, strict=True))


def _body(planned: State) -> Json:
    return {"spec": document_of(planned), "project": planned["project"], "mode": planned["mode"]} | {
        name: planned[name] for name in ("preflight",) if not planned[name]
    }


def _is(found: Json, planned: State) -> bool:
    spec, _ = state_of(found["spec"])
    unchanged = all(found[name] == planned[name] for name in ("project", "mode"))
    return unchanged and all(same(SPEC.named(name).type, spec[name], planned[name]) for name in PARTS)


def _serves(failure: Failure) -> Failure:
    if failure.name != "serves-traffic":
        return failure
    told = failure.detail.partition(". Send the request again")[0]
    return Failure(
        failure.name, f"{told}. Apply allow_traffic_loss = true first, if that is meant", facts=failure.facts
    )


def _tell(failure: Failure, planned: State, report: Report) -> None:
    if failure.name == "over-budget":
        own = planned["policy"] is not None and planned["policy"]["max_usd_per_hour"] is not None
        path = ("policy", "max_usd_per_hour") if own else ("models",)
        facts = failure.facts
        report.error(
            f"Fleet {planned['name']} is over its budget: it needs {facts['needed_usd_per_hour']:.2f} $/h, and may "
            f"cost {facts['budget_usd_per_hour']:.2f} $/h",
            f"{failure.detail.partition('. Raise that')[0]}. Raise the limit, or lower the demand.",
            path,
        )
        return
    report_failure(failure, report, path_of(planned))
