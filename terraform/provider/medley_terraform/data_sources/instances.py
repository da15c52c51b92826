"""`medley_instances`."""

from typing import Any

from medley_terraform.fleet_file import NAME_LIMITS, limits_of_enumeration
from medley_terraform.report import Report
from medley_terraform.resource import DataSource
from medley_terraform.schema import Schema, State
from medley_terraform.types import Attribute, Collection, Many, Nested, Nesting, Scalar, computed

_STATES = limits_of_enumeration("InstanceState")


class InstancesData(DataSource):
    name = "instances"
    schema = Schema(
        "What runs: instances of fleets, each a template on its nodes.",
        (
            Attribute("fleet", "Only instances of this one.", limits=NAME_LIMITS),
            Attribute(
                "states",
                f"Only instances in these: {', '.join(f'`{state}`' for state in _STATES.one_of)}. Default: "
                "all but `terminated`.",
                Many(Collection.SET, Scalar.STRING),
                limits=_STATES,
            ),
            computed(
                "instances",
                "By id.",
                Nested(
                    Nesting.LIST,
                    (
                        computed("id", "Name of the instance."),
                        computed("fleet", "The fleet that it is of."),
                        computed("model", "The model that it serves."),
                        computed("leg", "`prefill`, `decode` or `aggregated`; empty: not planned any more."),
                        computed("state", "Where it is in its life."),
                        computed("state_since", "Since when it is in that state, RFC 3339."),
                        computed("zone", "Where it is."),
                        computed("market", "`on-demand`, `spot`, `reserved` or `owned`."),
                        computed("template", "What runs on its nodes."),
                        computed("usd_per_hour", "What its plan reckoned that it costs.", Scalar.NUMBER),
                        computed("units_per_s", "Throughput that it was planned to sustain.", Scalar.NUMBER),
                        computed("running", "Requests under way.", Scalar.NUMBER),
                        computed("waiting", "Requests that wait.", Scalar.NUMBER),
                    ),
                ),
            ),
        ),
    )

    def read(self, config: State, report: Report) -> dict[str, Any]:  # noqa: ARG002
        query: dict[str, Any] = {} if config["fleet"] is None else {"fleet": config["fleet"]}
        if config["states"] is not None:
            query["state"] = config["states"]
        return {"instances": self.session.client.pages("/instances", query)}
