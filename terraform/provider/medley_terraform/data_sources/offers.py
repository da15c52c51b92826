"""`medley_offers`."""

from typing import Any

from medley_terraform.fleet.fields import COUNT
from medley_terraform.report import Report
from medley_terraform.resource import DataSource
from medley_terraform.schema import Attribute, Limits, Schema, State
from medley_terraform.types import Nested, Nesting, Scalar

_FILTERS = ("cloud", "region", "gpu", "market")
_DEFAULT_LIMIT = 100


def _of(name: str, kind: Scalar, description: str) -> Attribute:
    return Attribute(name=name, type=kind, computed=True, description=description)


class OffersData(DataSource):
    name = "offers"
    schema = Schema(
        "What can be rented where at what price, cheapest GPU first: live for clouds that were asked, else the dated "
        "prices that ship with Medley.",
        (
            Attribute(name="cloud", description="Only of this one."),
            Attribute(name="region", description="Only of this one."),
            Attribute(name="gpu", description="Only with this one, such as `L40S`."),
            Attribute(name="market", limits=Limits(one_of=("on-demand", "spot")), description="Only of this one."),
            Attribute(
                name="limit",
                type=Scalar.NUMBER,
                limits=COUNT,
                description=f"How many of the cheapest. Default: {_DEFAULT_LIMIT}.",
            ),
            Attribute(
                name="offers",
                type=Nested(
                    Nesting.LIST,
                    (
                        _of("key", Scalar.STRING, "`cloud/zone/type/market`."),
                        _of("cloud", Scalar.STRING, "Who rents it out."),
                        _of("region", Scalar.STRING, "Where."),
                        _of("zone", Scalar.STRING, "Where in the region."),
                        _of("instance_type", Scalar.STRING, "As the cloud calls it."),
                        _of("node_config", Scalar.STRING, "As plans call it, such as `L40S:2/n25`."),
                        _of("gpu", Scalar.STRING, "Type of its GPUs."),
                        _of("gpu_count", Scalar.NUMBER, "How many it has."),
                        _of("market", Scalar.STRING, "`on-demand` or `spot`."),
                        _of("usd_per_hour", Scalar.NUMBER, "Of the whole machine."),
                        _of("usd_per_gpu_hour", Scalar.NUMBER, "Of one GPU of it."),
                        _of("available_count", Scalar.NUMBER, "Nodes that could be had; null: nobody knows."),
                        _of("observed_at", Scalar.STRING, "When the price was seen."),
                        _of("source", Scalar.STRING, "Who says so."),
                    ),
                ),
                computed=True,
                description="Cheapest per GPU first.",
            ),
        ),
    )

    def read(self, config: State, report: Report) -> dict[str, Any]:  # noqa: ARG002
        query = {name: config[name] for name in _FILTERS if config[name] is not None}
        found = self.site.client.pages("/offers", query)
        found.sort(key=lambda offer: (offer["usd_per_gpu_hour"], offer["key"]))
        return {"offers": found[: int(config["limit"] or _DEFAULT_LIMIT)]}
