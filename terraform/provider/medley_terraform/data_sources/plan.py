"""`medley_plan`."""

from typing import Any

from medley_terraform.fleet import dry_run
from medley_terraform.fleet_file import NAME_LIMITS
from medley_terraform.report import Report
from medley_terraform.resource import DataSource
from medley_terraform.schema import Schema, State
from medley_terraform.types import Attribute, Collection, Many, Nested, Nesting, Scalar, computed


class PlanData(DataSource):
    name = "plan"
    schema = Schema(
        "What a fleet would cost now: its plan, solved for the prices and the demand of this moment and compared with "
        "homogeneous fleets. Nothing is rented and nobody is held to it. Every `terraform plan` solves it again.",
        (
            Attribute("fleet", "Its name: `medley_fleet.NAME.id`.", required=True, limits=NAME_LIMITS),
            computed("id", "Id of the plan: `medley explain` takes it."),
            computed(
                "status",
                "`optimal` (its cost is proven to be within the solver's tolerance of the optimum), "
                "`feasible` (it is not) or `partial` (some demand is unmet).",
            ),
            computed("usd_per_hour", "Rent and traffic.", Scalar.NUMBER),
            computed("node_count", "Nodes of all instances.", Scalar.NUMBER),
            computed("nodes", "How many of each node configuration.", Many(Collection.MAP, Scalar.NUMBER)),
            computed(
                "unmet",
                "Requests per second that it does not serve, by demand; empty: it serves all.",
                Many(Collection.MAP, Scalar.NUMBER),
            ),
            computed("unmet_share", "Share of all requests that it does not serve, 0 to 1.", Scalar.NUMBER),
            computed(
                "saving",
                "Against the cheapest baseline that serves as much; null: none does.",
                Nested(
                    Nesting.SINGLE,
                    (
                        computed("baseline", "What it was compared with."),
                        computed("baseline_usd_per_hour", "What that costs.", Scalar.NUMBER),
                        computed("usd_per_hour", "What is saved.", Scalar.NUMBER),
                        computed("share", "Share of the baseline's cost.", Scalar.NUMBER),
                    ),
                ),
            ),
        ),
    )

    def read(self, config: State, report: Report) -> dict[str, Any]:  # noqa: ARG002
        client = self.session.client
        asked = dry_run.begin(client, {"fleet": config["fleet"]}, anew=True)
        found = dry_run.outcome(client, asked, self.session.plan_timeout_s)
        plan, nodes = found.plan, dict[str, int]()
        for offer in plan["offers"]:
            nodes[offer["node_config"]] = nodes.get(offer["node_config"], 0) + offer["nodes"]
        return {
            "id": plan["id"],
            "status": plan["summary"]["status"],
            "usd_per_hour": found.usd_per_hour,
            "node_count": found.nodes,
            "nodes": nodes,
            "unmet": found.unmet,
            "unmet_share": plan["unmet_share"],
            "saving": plan["saving"],
        }
