"""`medley_offers`."""

from typing import Any

from medley_terraform.fleet_file import limits_of_enumeration
from medley_terraform.report import Report
from medley_terraform.resource import DataSource
from medley_terraform.schema import Schema, State
from medley_terraform.types import Attribute, Limits, Nested, Nesting, Scalar, computed

_FILTERS = ("cloud", "region", "gpu", "market")
_DEFAULT_LIMIT = 100


class OffersData(DataSource):
    name = "offers"
    schema = Schema(
        "What can be rented where at what price, cheapest GPU first: live for clouds that were asked, else the dated "
        "prices that ship with Medley.",
        (
            Attribute("cloud", "Only offers of this one."),
            Attribute("region", "Only offers of this one."),
            Attribute("gpu", "Only offers with this one, such as `L40S`."),
            Attribute("market", "Only offers of this one.", limits=limits_of_enumeration("Market")),
            Attribute(
                "limit",
                f"How many of the cheapest. Default: {_DEFAULT_LIMIT}.",
                Scalar.NUMBER,
                limits=Limits(least=1, whole=True),
            ),
            computed(
                "offers",
                "Cheapest per GPU first.",
                Nested(
                    Nesting.LIST,
                    (
                        computed("key", "`cloud/zone/type/market`."),
                        computed("cloud", "The cloud that rents it out."),
                        computed("region", "Where it is."),
                        computed("zone", "Where in the region it is."),
                        computed("instance_type", "Machine, as the cloud calls it."),
                        computed("node_config", "Machine, as plans call it, such as `L40S:2/n25`."),
                        computed("gpu", "Type of its GPUs."),
                        computed("gpu_count", "How many GPUs it has.", Scalar.NUMBER),
                        computed("market", "`on-demand` or `spot`."),
                        computed("usd_per_hour", "Price of the whole machine.", Scalar.NUMBER),
                        computed("usd_per_gpu_hour", "Price of one GPU of it.", Scalar.NUMBER),
                        computed("available_count", "Nodes that could be had; null: nobody knows.", Scalar.NUMBER),
                        computed("observed_at", "When the price was seen."),
                        computed("source", "Where the price is from."),
                    ),
                ),
            ),
        ),
    )

    def read(self, config: State, report: Report) -> dict[str, Any]:  # noqa: ARG002
        query = {name: config[name] for name in _FILTERS if config[name] is not None}
        found = self.session.client.pages("/offers", query)
        found.sort(key=lambda offer: (offer["usd_per_gpu_hour"], offer["key"]))
        return {"offers": found[: int(config["limit"] or _DEFAULT_LIMIT)]}
