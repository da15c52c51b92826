"""Offers of AWS through boto3: offerings and spot prices by zone, on-demand prices and quotas by region.

Credentials and endpoints are boto3's own (environment, shared files, roles; `AWS_ENDPOINT_URL`). What is needed:
ec2:DescribeRegions, DescribeAvailabilityZones, DescribeInstanceTypeOfferings, DescribeSpotPriceHistory,
pricing:GetProducts, servicequotas:ListServiceQuotas.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from control.offers.interruptions import interruptions_per_hour
from control.offers.live.aws_access import HOME, AwsClients, asked
from control.offers.live.aws_quotas import quota_pools_of
from control.offers.live.aws_region import offered_zones, on_demand_prices, spot_prices, zones_of
from control.offers.live.source import LiveAnswer, NoAccessError, SourceError
from control.offers.prices import regions_by_cloud
from control.offers.selection import Selection
from templates_lib.values.hardware import InstanceType, load_instance_types, node_configs
from templates_lib.values.offer import Market, Offer
from templates_lib.values.supply import SupplyPool

T = TypeVar("T")

CLOUD = "aws"
SOURCE = "aws-api"
_AT_ONCE = 8
"""Regions side by side."""


@dataclass(slots=True)
class _Found:
    offers: list[Offer] = field(default_factory=list)
    pools: list[SupplyPool] = field(default_factory=list)
    failures: list[SourceError] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class AwsOffers:
    """The part of AWS that `selections` name (those of other clouds are passed over)."""

    selections: Sequence[Selection]
    cloud: str = CLOUD
    name: str = SOURCE

    def fetch(self, now: datetime) -> LiveAnswer:
        clients = AwsClients.of_environment()
        markets = {m for s in self._mine for m in s.markets}
        enabled = self._enabled(clients)
        wanted = self._regions()
        regions = [region for region in wanted if region in enabled]
        notes = [f"aws: region {r} is not enabled for this account" for r in wanted if r not in enabled]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            found = list(pool.map(lambda region: self._region(clients, region, markets, now), regions))
        failures = [failure for each in found for failure in each.failures]
        offers = tuple(offer for each in found for offer in each.offers)
        if failures and not offers:
            raise next((f for f in failures if isinstance(f, NoAccessError)), failures[0])
        machines = [
            m for m in load_instance_types() if m.cloud == CLOUD and m.name in {o.instance_type for o in offers}
        ]
        notes += [f"aws: {failure}" for failure in failures]
        pools = tuple(pool for each in found for pool in each.pools)
        return LiveAnswer(offers, node_configs(machines), pools, tuple(notes), partly=bool(failures))

    @property
    def _mine(self) -> list[Selection]:
        return [s for s in self.selections if s.cloud == CLOUD]

    def _regions(self) -> list[str]:
        every = regions_by_cloud()[CLOUD]
        return sorted({region for s in self._mine for region in (s.regions or every)})

    def _machines(self, region: str, market: Market) -> dict[str, InstanceType]:
        return {
            m.name: m
            for m in load_instance_types()
            if m.cloud == CLOUD and any(s.reads(region, m, market) for s in self._mine)
        }

    def _enabled(self, clients: AwsClients) -> set[str]:
        def ask() -> set[str]:
            return {r["RegionName"] for r in clients.get("ec2", HOME).describe_regions()["Regions"]}

        return asked(ask, "regions")

    def _region(self, clients: AwsClients, region: str, markets: set[Market], now: datetime) -> _Found:
        """Read the parts of one region one by one: a missing permission costs that part only."""
        found = _Found()

        def part(ask: Callable[[], T], what: str) -> T | None:
            try:
                return asked(ask, f"{what} of {region}")
            except SourceError as error:
                found.failures.append(error)
                return None

        ec2 = clients.get("ec2", region)
        machines = {market: self._machines(region, market) for market in markets}
        names = sorted({name for known in machines.values() for name in known})
        zones = part(lambda: zones_of(ec2), "zones") if names else None
        sold = part(lambda: offered_zones(ec2, names), "offerings") if zones else None
        if zones is None or sold is None:  # without them nothing of the region can be offered
            return found
        if Market.ON_DEMAND in markets:
            pricing = clients.get("pricing", HOME)
            listed = part(lambda: on_demand_prices(pricing, region, names), "on-demand prices") or {}
            for name in sorted(machines[Market.ON_DEMAND].keys() & listed.keys()):
                machine, price = machines[Market.ON_DEMAND][name], (listed[name], now.isoformat())
                zoned = sorted(sold.get(name, ()))
                found.offers += [_offer(machine, region, zone, Market.ON_DEMAND, *price) for zone in zoned]
        if Market.SPOT in markets:
            known = machines[Market.SPOT]
            spot = part(lambda: spot_prices(ec2, sorted(known), zones, now), "spot prices") or {}
            for (name, zone), price in sorted(spot.items()):
                if name in known and zone in sold.get(name, ()):
                    found.offers.append(_offer(known[name], region, zone, Market.SPOT, *price))
        quotas = clients.get("service-quotas", region)
        found.pools += part(lambda: quota_pools_of(quotas, region, found.offers), "quotas") or ()
        return found


def _offer(machine: InstanceType, region: str, zone: str, market: Market, usd_per_hour: float, since: str) -> Offer:
    often = interruptions_per_hour(CLOUD, region, machine.name, market)
    config = machine.config_id
    return Offer(CLOUD, region, zone, machine.name, config, market, usd_per_hour, None, since, often, SOURCE)
