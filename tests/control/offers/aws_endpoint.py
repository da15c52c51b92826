"""AWS on this machine: moto's server for EC2, with spot prices that differ, and price list and quotas of our own, which
moto answers with errors."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.responses.spot_instances import SpotInstances
from moto.server import ThreadedMotoServer

from tests.http_endpoint import Asked, Endpoint, Said, serving

PAGE = 2


def product(machine: str, usd_per_hour: float, region: str = "us-east-2", **attributes: str) -> str:
    """As the price list has it, all of AWS's layers kept."""
    about = {
        "instanceType": machine, "regionCode": region, "operatingSystem": "Linux", "tenancy": "Shared",
        "preInstalledSw": "NA", "capacitystatus": "Used", "marketoption": "OnDemand", **attributes,
    }  # fmt: skip
    dimension = {"unit": "Hrs", "pricePerUnit": {"USD": f"{usd_per_hour:.10f}"}}
    free = {"unit": "Hrs", "pricePerUnit": {"USD": "0.0000000000"}}
    terms = {"OnDemand": {"SKU.T": {"priceDimensions": {"SKU.T.1": dimension, "SKU.T.2": free}}}}
    return json.dumps({"product": {"sku": "SKU", "attributes": about}, "terms": terms, "serviceCode": "AmazonEC2"})


@dataclass
class AwsEndpoint:
    """What its answers are made of; change it between calls."""

    products: list[str] = field(default_factory=list)
    quotas: dict[str, dict[str, float]] = field(default_factory=dict)
    """Region → quota name → vCPUs."""
    spot: dict[tuple[str, str], list[tuple[str, str]]] = field(default_factory=dict)
    """(machine, zone name) → (price, since), the newest anywhere."""
    throttle: int = 0
    """So many of the next calls for prices or quotas are refused as too many."""
    deny: str = ""
    """Service whose calls are refused: `pricing`, `servicequotas`."""
    own: Endpoint = field(default_factory=lambda: Endpoint(""))
    ec2_url: str = ""

    @property
    def environment(self) -> dict[str, str]:
        """That boto3 finds it by."""
        return {
            "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_ENDPOINT_URL_EC2":
            self.ec2_url, "AWS_ENDPOINT_URL_PRICING": self.own.url, "AWS_ENDPOINT_URL_SERVICE_QUOTAS": self.own.url,
        }  # fmt: skip

    def answer(self, asked: Asked) -> Said:
        service = "pricing" if "PriceList" in asked.headers["x-amz-target"] else "servicequotas"
        if self.throttle > 0:
            self.throttle -= 1
            return _error("ThrottlingException", "Rate exceeded")
        if self.deny == service:
            return _error("AccessDeniedException", f"not authorized to perform: {service}")
        region = asked.headers["authorization"].split("/")[2]
        begin = int(asked.json.get("NextToken") or 0)
        listed: list[Any] = self.products
        if service == "servicequotas":
            quotas = self.quotas.get(region, {}).items()
            listed = [{"QuotaName": n, "QuotaCode": f"L-{i}", "Value": v} for i, (n, v) in enumerate(quotas)]
        more = {"NextToken": str(begin + PAGE)} if begin + PAGE < len(listed) else {}
        part = listed[begin : begin + PAGE]
        return Said(
            {"PriceList": part, "FormatVersion": "aws_v1"} | more if service == "pricing" else {"Quotas": part} | more
        )

    def history(self, response: SpotInstances) -> ActionResult:
        machines = response._get_param("InstanceTypes", [])
        zones = {z.name for z in response.ec2_backend.describe_availability_zones([])}
        return ActionResult({
            "SpotPriceHistory": [
                {"InstanceType": machine, "ProductDescription": "Linux/UNIX", "SpotPrice": price,
                 "AvailabilityZone": zone, "Timestamp": since}
                for (machine, zone), points in self.spot.items()
                for price, since in points
                if machine in machines and zone in zones
            ]
        })  # fmt: skip


def _error(code: str, message: str) -> Said:
    return Said({"__type": code, "message": message}, 400)


@contextmanager
def aws() -> Iterator[AwsEndpoint]:
    endpoint = AwsEndpoint()
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint.ec2_url = f"http://{host}:{port}"
    constant = SpotInstances.describe_spot_price_history
    try:
        # moto says one price for everything.
        SpotInstances.describe_spot_price_history = _history_of(endpoint)
        with serving(endpoint.answer) as endpoint.own:
            yield endpoint
    finally:
        SpotInstances.describe_spot_price_history = constant
        server.stop()


def _history_of(endpoint: AwsEndpoint) -> Callable[[SpotInstances], ActionResult]:
    def history(response: SpotInstances) -> ActionResult:
        return endpoint.history(response)

    return history
