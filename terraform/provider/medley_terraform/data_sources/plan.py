"""`medley_plan`."""

from typing import Any

from medley_terraform.fleet import dry_run
from medley_terraform.report import Report
from medley_terraform.resource import DataSource
from medley_terraform.resources.common import NAME_LIMITS
from medley_terraform.schema import Attribute, Schema, State
from medley_terraform.types import Collection, Many, Nested, Nesting, Scalar


def _number(name: str, description: str) -> Attribute:
    return Attribute(name=name, type=Scalar.NUMBER, computed=True, description=description)


class PlanData(DataSource):
    name = "plan"
    schema = Schema(
        "What a fleet would cost now: its plan, solved for the prices and the demand of this moment and compared with "
        "homogeneous fleets. Nothing is rented and nobody is held to it. Every `terraform plan` solves it again.",
        (
            Attribute(name="fleet", required=True, limits=NAME_LIMITS, description="Its name: `medley_fleet.NAME.id`."),
            Attribute(name="id", computed=True, description="Of the plan: `medley explain` takes it."),
            Attribute(
                name="status",
                computed=True,
                description="`optimal` (its cost is proven to be within the solver's tolerance of the optimum), "
                "`feasible` (it is not) or `partial` (some demand is unmet).",
            ),
            _number("usd_per_hour", "Rent and traffic."),
            _number("node_count", "Of all instances."),
            Attribute(
                name="nodes",
                type=Many(Collection.MAP, Scalar.NUMBER),
                computed=True,
                description="How many of each node configuration.",
            ),
            Attribute(
                name="unmet",
                type=Many(Collection.MAP, Scalar.NUMBER),
                computed=True,
                description="Requests per second that it does not serve, by demand; empty: it serves all.",
            ),
            _number("unmet_share", "Of all requests, 0 to 1."),
            Attribute(
                name="saving",
                type=Nested(
                    Nesting.SINGLE,
                    (
                        Attribute(name="baseline", computed=True, description="With what it was compared."),
                        _number("baseline_usd_per_hour", "What that costs."),
                        _number("usd_per_hour", "What is saved."),
                        _number("share", "Of the baseline's cost."),
                    ),
                ),
                computed=True,
                description="Against the cheapest baseline that serves as much; null: none does.",
            ),
        ),
    )

    def read(self, config: State, report: Report) -> dict[str, Any]:  # noqa: ARG002
        client = self.site.client
        asked = dry_run.begin(client, {"fleet": config["fleet"]}, anew=True)
        found = dry_run.outcome(client, asked, self.site.plan_timeout_s)
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
