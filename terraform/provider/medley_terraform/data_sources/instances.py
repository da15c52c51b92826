"""`medley_instances`."""

from typing import Any

from medley_terraform.fleet.fields import several
from medley_terraform.report import Report
from medley_terraform.resource import DataSource
from medley_terraform.resources.common import NAME_LIMITS
from medley_terraform.schema import Attribute, Limits, Schema, State
from medley_terraform.types import Nested, Nesting, Scalar

_STATES = (
    "requested", "provisioning", "bootstrapping", "loading", "ready", "draining", "terminating", "terminated", "failed",
)  # fmt: skip


def _of(name: str, kind: Scalar, description: str) -> Attribute:
    return Attribute(name=name, type=kind, computed=True, description=description)


class InstancesData(DataSource):
    name = "instances"
    schema = Schema(
        "What runs: instances of fleets, each a template on its nodes.",
        (
            Attribute(name="fleet", limits=NAME_LIMITS, description="Only of this one."),
            several(
                "states",
                f"Only in these: {', '.join(f'`{state}`' for state in _STATES)}. Default: all but `terminated`.",
                limits=Limits(one_of=_STATES),
            ),
            Attribute(
                name="instances",
                type=Nested(
                    Nesting.LIST,
                    (
                        _of("id", Scalar.STRING, "Of the instance."),
                        _of("fleet", Scalar.STRING, "Whose it is."),
                        _of("model", Scalar.STRING, "That it serves."),
                        _of("leg", Scalar.STRING, "`prefill`, `decode` or `aggregated`; empty: not planned any more."),
                        _of("state", Scalar.STRING, "In its life."),
                        _of("state_since", Scalar.STRING, "RFC 3339."),
                        _of("zone", Scalar.STRING, "Where."),
                        _of("market", Scalar.STRING, "`on-demand`, `spot`, `reserved` or `owned`."),
                        _of("template", Scalar.STRING, "What runs on its nodes."),
                        _of("usd_per_hour", Scalar.NUMBER, "That its plan reckoned with."),
                        _of("units_per_s", Scalar.NUMBER, "That it was planned to sustain."),
                        _of("running", Scalar.NUMBER, "Requests under way."),
                        _of("waiting", Scalar.NUMBER, "Requests that wait."),
                    ),
                ),
                computed=True,
                description="By id.",
            ),
        ),
    )

    def read(self, config: State, report: Report) -> dict[str, Any]:  # noqa: ARG002
        query: dict[str, Any] = {} if config["fleet"] is None else {"fleet": config["fleet"]}
        if config["states"] is not None:
            query["state"] = config["states"]
        return {"instances": self.site.client.pages("/instances", query)}
