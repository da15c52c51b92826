"""Offers of GCP through google-cloud-compute and the billing catalogue: machines by zone, prices and quotas by region.

Credentials are Google's own (Application Default Credentials), the project GOOGLE_CLOUD_PROJECT or theirs; an endpoint
may be set as for gcloud (CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE, …_CLOUDBILLING). What is needed:
compute.machineTypes.list, compute.regions.list, and the Cloud Billing API enabled in the project.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from control.offers.interruptions import interruptions_per_hour
from control.offers.live.bounds import MAX_OFFERS, bounded
from control.offers.live.gcp_access import TIMEOUT_S, GcpAccess, asked, gcp_access, regions_of, retry
from control.offers.live.gcp_prices import PriceBook, Shape, price_book
from control.offers.live.gcp_quotas import quota_pools_of
from control.offers.live.source import LiveAnswer, NoAnswerError, SourceError
from control.offers.selection import Selection
from templates_lib.values.hardware import InstanceType, load_instance_types, node_configs
from templates_lib.values.offer import Market, Offer
from templates_lib.values.supply import SupplyPool

CLOUD = "gcp"
SOURCE = "gcp-api"
COMPUTE_ENGINE = "services/6F81-5844-456A"
"""Service of Compute Engine in the billing catalogue."""


@dataclass(frozen=True, slots=True)
class GcpOffers:
    """The part of GCP that `selections` name (those of other clouds are passed over)."""

    selections: Sequence[Selection]
    environment: Mapping[str, str]
    """Environment of the process."""
    cloud: str = CLOUD
    name: str = SOURCE

    def fetch(self, now: datetime) -> LiveAnswer:
        access = gcp_access(self.environment)
        machines = {m.name: m for m in load_instance_types() if m.cloud == CLOUD and self._named(m)}
        shapes, unreachable = asked(lambda: machine_shapes(access, machines), "machine types")
        book = asked(lambda: price_book(_skus(access)), "prices")
        notes = [f"gcp: does not answer for {', '.join(unreachable)} now"] if unreachable else []
        offers, unpriced = self._offers(machines, shapes, book, now)
        if unpriced:
            notes.append(f"gcp: its price list has no price for {', '.join(sorted(unpriced))} where they are sold")
        pools: tuple[SupplyPool, ...] = ()
        failed = False
        try:
            pools = asked(lambda: quota_pools_of(regions_of(access), offers), "quotas")
        except SourceError as error:
            failed = True
            notes.append(f"gcp: {error}")
        used = {offer.instance_type for offer in offers}
        configs = node_configs(m for name, m in machines.items() if name in used)
        return LiveAnswer(tuple(offers), configs, pools, tuple(notes), partly=bool(unreachable) or failed)

    def _named(self, machine: InstanceType) -> bool:
        return any(
            s.reads(region, machine, market)
            for s in self.selections
            if s.cloud == CLOUD
            for market in s.markets
            for region in s.regions or ("",)
        )

    def _offers(
        self,
        machines: Mapping[str, InstanceType],
        shapes: Mapping[tuple[str, str], Shape],
        book: PriceBook,
        now: datetime,
    ) -> tuple[list[Offer], set[str]]:
        """Return the offers, and the machines that some zone sells and no price is found for. `shapes`: by machine and
        zone."""
        offers: list[Offer] = []
        unpriced: set[str] = set()
        for (name, zone), shape in sorted(shapes.items()):
            machine, region = machines[name], zone.rpartition("-")[0]
            for market in (Market.ON_DEMAND, Market.SPOT):
                if not any(s.reads(region, machine, market) for s in self.selections):
                    continue
                usd_per_hour = book.usd_per_hour(shape, region, market)
                if usd_per_hour is None:
                    unpriced.add(f"{name} ({market.value})")
                    continue
                often = interruptions_per_hour(CLOUD, region, name, market)
                config, at = machine.config_id, now.isoformat()
                offers.append(Offer(CLOUD, region, zone, name, config, market, usd_per_hour, None, at, often, SOURCE))
        return offers, unpriced


def machine_shapes(
    access: GcpAccess, machines: Mapping[str, InstanceType]
) -> tuple[dict[tuple[str, str], Shape], list[str]]:
    """Return the shapes by (machine, zone), and the zones that could not be reached."""
    from google.cloud import compute_v1

    client = access.client(compute_v1.MachineTypesClient, "COMPUTE")
    request = compute_v1.AggregatedListMachineTypesRequest(
        project=access.project,
        filter=" OR ".join(f'(name = "{name}")' for name in sorted(machines)),
        max_results=500,
    )
    found: dict[tuple[str, str], Shape] = {}
    unreachable: list[str] = []
    pages = client.aggregated_list(request=request, retry=retry(), timeout=TIMEOUT_S).pages
    for page in bounded(pages, "machine types"):
        unreachable += list(page.unreachables)
        for place, scoped in page.items.items():
            for told in scoped.machine_types:
                machine = machines.get(told.name)
                count = sum(each.guest_accelerator_count for each in told.accelerators)
                if machine is None or count != machine.gpu_count:
                    continue  # what is known of this machine is not what the zone sells under its name
                ssd_gib = 375 * int(told.bundled_local_ssds.partition_count)
                zone = place.removeprefix("zones/")
                found[told.name, zone] = Shape(
                    told.name, machine.gpu, count, told.guest_cpus, told.memory_mb / 1024, ssd_gib
                )
                if len(found) > MAX_OFFERS:
                    raise NoAnswerError(f"machine types: more than {MAX_OFFERS}")
    return found, sorted({place.removeprefix("zones/") for place in unreachable})


def _skus(access: GcpAccess) -> Iterator[Any]:
    from google.cloud import billing_v1

    client = access.client(billing_v1.CloudCatalogClient, "CLOUDBILLING", transport="rest")
    request = billing_v1.ListSkusRequest(parent=COMPUTE_ENGINE, page_size=5000, currency_code="USD")
    for page in bounded(client.list_skus(request=request, retry=retry(), timeout=TIMEOUT_S).pages, "prices"):
        yield from page.skus
