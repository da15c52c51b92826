"""Offers of GCP through google-cloud-compute and the billing catalogue: machines by zone, prices and quotas by region.

Credentials are Google's own (Application Default Credentials), the project GOOGLE_CLOUD_PROJECT or theirs; an endpoint
may be set as for gcloud (CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE, …_CLOUDBILLING). What is needed:
compute.machineTypes.list, compute.regions.list, and the Cloud Billing API enabled in the project.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from control.offers.interruptions import interruptions_per_hour
from control.offers.live.bounds import MAX_OFFERS, bounded
from control.offers.live.gcp_prices import PriceBook, Shape, price_book
from control.offers.live.source import LiveAnswer, NoAccessError, NoAnswerError, SourceError
from control.offers.selection import Selection
from templates_lib.values.hardware import InstanceType, instance_type, load_instance_types, node_configs
from templates_lib.values.offer import Market, Offer
from templates_lib.values.supply import SupplyPool

T = TypeVar("T")

CLOUD = "gcp"
SOURCE = "gcp-api"
COMPUTE_ENGINE = "services/6F81-5844-456A"
"""Service of Compute Engine in the billing catalogue."""
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_TIMEOUT_S = 30.0
_RETRY_S = 60.0


_SPOT = "PREEMPTIBLE_"


@dataclass(frozen=True, slots=True)
class _Access:
    credentials: Any
    project: str
    environment: Mapping[str, str]

    def client(self, kind: Callable[..., T], override: str, **more: Any) -> T:
        from google.api_core.client_options import ClientOptions

        address = self.environment.get(f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{override}")
        options = ClientOptions(api_endpoint=address.rstrip("/")) if address else None
        return kind(credentials=self.credentials, client_options=options, **more)


@dataclass(frozen=True, slots=True)
class GcpOffers:
    """The part of GCP that `selections` name (those of other clouds are passed over)."""

    selections: Sequence[Selection]
    environment: Mapping[str, str]
    """Environment of the process."""
    cloud: str = CLOUD
    name: str = SOURCE

    def fetch(self, now: datetime) -> LiveAnswer:
        access = _asked(self._access, "credentials")
        machines = {m.name: m for m in load_instance_types() if m.cloud == CLOUD and self._named(m)}
        shapes, unreachable = _asked(lambda: _shapes(access, machines), "machine types")
        book = _asked(lambda: price_book(_skus(access)), "prices")
        notes = [f"gcp: does not answer for {', '.join(unreachable)} now"] if unreachable else []
        offers, unpriced = self._offers(machines, shapes, book, now)
        if unpriced:
            notes.append(f"gcp: its price list has no price for {', '.join(sorted(unpriced))} where they are sold")
        pools: tuple[SupplyPool, ...] = ()
        failed = False
        try:
            pools = _asked(lambda: quota_pools_of(_regions(access), offers), "quotas")
        except SourceError as error:
            failed = True
            notes.append(f"gcp: {error}")
        used = {offer.instance_type for offer in offers}
        configs = node_configs(m for name, m in machines.items() if name in used)
        return LiveAnswer(tuple(offers), configs, pools, tuple(notes), partly=bool(unreachable) or failed)

    def _access(self) -> _Access:
        import google.auth

        credentials, found = google.auth.default(scopes=[_SCOPE])
        project = self.environment.get("GOOGLE_CLOUD_PROJECT") or found
        if not project:
            raise NoAccessError("no GCP project is known: set GOOGLE_CLOUD_PROJECT")
        return _Access(credentials, project, self.environment)

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


def _shapes(access: _Access, machines: Mapping[str, InstanceType]) -> tuple[dict[tuple[str, str], Shape], list[str]]:
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
    pages = client.aggregated_list(request=request, retry=_retry(), timeout=_TIMEOUT_S).pages
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


def _skus(access: _Access) -> Iterator[Any]:
    from google.cloud import billing_v1

    client = access.client(billing_v1.CloudCatalogClient, "CLOUDBILLING", transport="rest")
    request = billing_v1.ListSkusRequest(parent=COMPUTE_ENGINE, page_size=5000, currency_code="USD")
    for page in bounded(client.list_skus(request=request, retry=_retry(), timeout=_TIMEOUT_S).pages, "prices"):
        yield from page.skus


def _regions(access: _Access) -> Iterator[Any]:
    from google.cloud import compute_v1

    client = access.client(compute_v1.RegionsClient, "COMPUTE")
    request = compute_v1.ListRegionsRequest(project=access.project, max_results=500)
    for page in bounded(client.list(request=request, retry=_retry(), timeout=_TIMEOUT_S).pages, "quotas"):
        yield from page.items


def _retry() -> Any:
    """Throttled, or a hiccup: again, later and later."""
    from google.api_core import exceptions
    from google.api_core.retry import Retry, if_exception_type

    again = if_exception_type(
        exceptions.TooManyRequests, exceptions.ServiceUnavailable, exceptions.InternalServerError, exceptions.BadGateway
    )
    return Retry(predicate=again, initial=0.5, maximum=16.0, multiplier=2.0, timeout=_RETRY_S)


def _asked(ask: Callable[[], T], what: str) -> T:
    """Raises SourceError for every way in which Google's libraries fail."""
    import requests.exceptions
    from google.api_core.exceptions import GoogleAPICallError, RetryError
    from google.auth.exceptions import GoogleAuthError

    try:
        return ask()
    except (GoogleAuthError, GoogleAPICallError, RetryError, requests.exceptions.RequestException) as error:
        raise _source_error(error, what) from None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise NoAnswerError(f"{what}: the answer is not what GCP documents: {type(error).__name__} {error}") from None


def _source_error(error: Exception, what: str) -> SourceError:
    """Translate an error of google.auth, google.api_core or the HTTP library below them."""
    from google.api_core.exceptions import Forbidden, RetryError, Unauthenticated, Unauthorized
    from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError, TransportError

    said = " ".join(str(error).split())[:300]
    if isinstance(error, DefaultCredentialsError):
        return NoAccessError(
            "no GCP credentials were found: run `gcloud auth application-default login`, "
            "or set GOOGLE_APPLICATION_CREDENTIALS"
        )
    if isinstance(error, TransportError):
        return NoAnswerError(f"{what}: {said}")
    if isinstance(error, GoogleAuthError):
        return NoAccessError(f"GCP credentials cannot be used, renew them: {said}")
    if isinstance(error, Forbidden | Unauthorized | Unauthenticated):
        return NoAccessError(f"GCP does not let us ask for {what}: {said}")
    if isinstance(error, RetryError) and error.cause is not None:
        return _source_error(error.cause, what)
    return NoAnswerError(f"{what}: {said}")


def quota_pools_of(regions: Iterable[Any], offers: Iterable[Offer]) -> tuple[SupplyPool, ...]:
    """Make the pools of `google.cloud.compute_v1.Region`s. Where there is no quota for spot GPUs, spot counts against
    the other one.

    What others in the project run counts against a quota too, and is not known here.
    """
    listed = [(offer, instance_type(offer.cloud, offer.instance_type)) for offer in offers]
    pools: list[SupplyPool] = []
    for region in regions:
        limits = {quota.metric: float(quota.limit) for quota in region.quotas}
        mine = [(offer, machine) for offer, machine in listed if offer.region == region.name]
        for family in sorted({machine.quota_family for _, machine in mine}):
            own = [(offer, machine) for offer, machine in mine if machine.quota_family == family]
            if limits.get(f"{_SPOT}{family}"):
                for market, metric in ((Market.ON_DEMAND, family), (Market.SPOT, f"{_SPOT}{family}")):
                    part = [(offer, machine) for offer, machine in own if offer.market is market]
                    pools += _pool(f"gcp/{region.name}/{family}/{market.value}", metric, limits, part)
            else:
                pools += _pool(f"gcp/{region.name}/{family}/{Market.ON_DEMAND.value}", family, limits, own)
    return tuple(pools)


def _pool(
    identity: str, metric: str, limits: dict[str, float], own: list[tuple[Offer, InstanceType]]
) -> list[SupplyPool]:
    if not own or metric not in limits:
        return []
    members = {offer.key: float(machine.gpu_count) for offer, machine in own}
    return [SupplyPool(identity, limits[metric], "gpus", members, f"quota {metric}")]
