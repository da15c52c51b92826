"""From a checked spec file to everything that a plan is made from, but the templates."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from control.cloud.local.kinds import DEFAULT_MACHINES, LocalMachine
from control.cloud.ssh.own_host import OwnHost
from control.fleet_file.document import Document, parse, read_text
from control.fleet_file.located import located
from control.fleet_file.names import Names
from control.fleet_file.own_model import OwnModel
from control.fleet_file.read import read
from control.fleet_file.schema import FleetFile
from control.offers.availability import read_availability, with_availability
from control.offers.combined import combined
from control.offers.file import FileOffers
from control.offers.pools import QuotaLimit, quota_pools
from control.offers.port import SHIPPED_MARKET, MarketView
from control.offers.prices import regions_by_cloud
from control.offers.quotes import Quotes
from control.offers.selection import Selection
from control.offers.shipped import ShippedOffers
from control.planning.local_market import ZONE, local_gpu, local_quotes
from control.planning.own_market import own_hosts, own_quotes
from control.planning.recipe import PipelineRecipe, SloSplit
from control.planning.served import served_apps
from control.planning.settings import settings_of
from templates_lib.apps.app import App
from templates_lib.load.shapes import catalogue
from templates_lib.models.catalogue import load_models, weights_places
from templates_lib.values.clouds import LOCAL, OWNED
from templates_lib.values.hardware import load_gpus
from templates_lib.values.instance import Instance
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.work import Demand


@dataclass(frozen=True, slots=True, eq=False)
class World:
    name: str
    quotes: Quotes
    demand: tuple[Demand, ...]
    apps: tuple[App, ...]
    recipe: PipelineRecipe
    fleet: FleetFile
    weights: dict[str, str]
    """Model id → where its weights are (`templates_lib.models.weights_place`), as far as it is known."""
    document: Document
    """That `fleet` was read from."""
    hosts: tuple[OwnHost, ...]
    """Machines of one's own that it names."""
    notes: tuple[str, ...]
    """On what its spec names, for people."""

    def quotes_on(self, market: MarketView) -> Quotes:
        """What its spec names on another market, as far as there are templates for it. Raises SpecError."""
        quotes, known = quotes_of(self.fleet, self.document, market), {config.id for config in self.recipe.nodes}
        kept = tuple(offer for offer in quotes.offers if offer.node_config in known)
        lacking = sorted({offer.node_config for offer in quotes.offers} - known)
        notes = (f"no template was made for {', '.join(lacking)}, which are newly sold",) if lacking else ()
        configs = {name: config for name, config in quotes.configs.items() if name in known}
        return replace(quotes, offers=kept, configs=configs, notes=(*quotes.notes, *notes))

    def snapshot(
        self, now: str, library_version: str, cost_model_fingerprint: str, instances: tuple[Instance, ...] = ()
    ) -> Snapshot:
        """Without a version: the caller hashes it. `instances`: that run."""
        return Snapshot(
            version="",
            now=now,
            offers=self.quotes.offers,
            pools=self.quotes.pools,
            traffic=self.quotes.traffic,
            instances=instances,
            routes=tuple(route for served in self.recipe.served for route in served.routes()),
            demand=self.demand,
            settings=settings_of(self.fleet),
            library_version=library_version,
            cost_model_fingerprint=cost_model_fingerprint,
        )


def read_world(path: Path, market: MarketView = SHIPPED_MARKET) -> World:
    """Raises SpecError with every problem of the file at once, OfferError for a market that cannot be had."""
    return world_of(parse(read_text(path), str(path)), market=market)


def world_of(document: Document, own: Collection[OwnModel] = (), market: MarketView = SHIPPED_MARKET) -> World:
    """The same of a text that was read already: relative paths in it begin where `document.file` is. `own`: models that
    it may name beside those of the catalogue."""
    fleet = fleet_of(document, own)
    hosts = own_hosts(fleet, document)
    apps, demand, notes = served_apps(fleet, document, own)
    quotes = quotes_of(fleet, document, market)
    bags: dict[str, set[str]] = {}
    for offer in quotes.offers:
        bags.setdefault(offer.zone_id, set()).add(offer.node_config)
    recipe = PipelineRecipe(
        served=tuple(served for app in apps for served in app.components),
        nodes=tuple(quotes.configs[c] for c in sorted(quotes.configs)),
        zone_bags=tuple(sorted({tuple(sorted(bag)) for bag in bags.values()})),
        n_max=fleet.solver.n_max,
        rho=fleet.solver.rho,
        slo_split=SloSplit(fleet.solver.slo_split),
        unpruned=_with_most_replicas(fleet),
        gpus=tuple(local_gpu(machine) for machine in local_machines(fleet)),
    )
    weights = weights_places() | {model.name: model.weights for model in own if model.weights}
    places = weights | _own_weights(fleet, Path(document.file).parent)
    return World(fleet.name, quotes, demand, apps, recipe, fleet, places, document, hosts, notes)


def fleet_of(document: Document, own: Collection[OwnModel] = ()) -> FleetFile:
    """What a spec says, checked; `own` as in `world_of`. Raises SpecError with every problem at once."""
    return read(document, _names(own))


def _own_weights(fleet: FleetFile, folder: Path) -> dict[str, str]:
    given = {model.model_id: model.weights for model in fleet.models if model.weights is not None}
    return {
        model: f"path:{(folder / place.removeprefix('path:')).absolute()}" if place.startswith("path:") else place
        for model, place in given.items()
    }


def _with_most_replicas(fleet: FleetFile) -> tuple[str, ...]:
    """Pruning trades a template for smaller ones, hence for more instances; only an upper limit on those minds."""
    limited = {key.rpartition("/")[0] for key, bounds in fleet.policy.replicas.items() if bounds.max is not None}
    return tuple(sorted(limited))


def _names(own: Iterable[OwnModel]) -> Names:
    shipped = catalogue()
    return Names(
        models=frozenset(load_models()) | {model.name for model in own},
        gpus=frozenset(load_gpus()),
        shapes=frozenset(s.id for s in shipped.shapes),
        rates=frozenset(r.id for r in shipped.rates),
        regions=regions_by_cloud() | {LOCAL: frozenset({ZONE}), OWNED: frozenset()},
    )


def local_machines(fleet: FleetFile) -> tuple[LocalMachine, ...]:
    """The kinds of node that the fleet may have on this machine; none where it names no local cloud."""
    for section in fleet.clouds:
        if section.cloud == LOCAL and section.kinds is not None:
            return tuple(
                LocalMachine(k.name, k.cpu_cores, k.memory_mib, k.stock, k.usd_per_hour) for k in section.kinds
            )
    return DEFAULT_MACHINES if fleet.is_local else ()


def stated_quotes(fleet: FleetFile) -> tuple[Quotes, ...]:
    """What its spec itself says can be had: nodes of this machine, and machines of one's own."""
    return (local_quotes(local_machines(fleet)), own_quotes(fleet))


def quotes_of(fleet: FleetFile, document: Document, market: MarketView) -> Quotes:
    """What `fleet`, read from `document`, may rent. Raises SpecError."""
    folder = Path(document.file).parent
    selections = [
        Selection(
            cloud=c.cloud,
            regions=tuple(c.regions) if c.regions else None,
            gpus=tuple(c.gpus) if c.gpus else None,
            counts=tuple(c.counts) if c.counts else None,
            markets=tuple(c.markets),
            derived=c.derived,
        )
        for c in fleet.clouds
        if c.cloud not in (LOCAL, OWNED)
    ]
    # The paper's market is one of its own.
    papers = ShippedOffers(selections, by_region=True).fetch
    sold = located(document, ("clouds",), papers if fleet.offers.by_region else partial(market.offers, selections))
    files = [
        located(document, ("offers", "files", i), FileOffers(folder / name).fetch)
        for i, name in enumerate(fleet.offers.files)
    ]
    quotes = combined([sold, *stated_quotes(fleet), *files])
    if fleet.offers.availability is not None:
        known = located(document, ("offers", "availability"), read_availability, folder / fleet.offers.availability)
        quotes = with_availability(quotes, known)
    pools = {pool.id: pool for pool in quotes.pools}
    for place, q in enumerate(fleet.quotas):
        limit = QuotaLimit(q.cloud, q.region, q.family, q.limit, q.market)
        stated = located(document, ("quotas", place), quota_pools, quotes.offers, quotes.configs, [limit])
        pools |= {pool.id: pool for pool in stated}
    return market.judged(replace(quotes, pools=tuple(pools.values())), fleet.policy.max_unproven_nodes)
