"""The world of a plan: everything that it is made from, but the templates, read from a checked spec file."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec import UNSET

from control.fleet_file.document import Document, parse, read_text
from control.fleet_file.names import Names
from control.fleet_file.own_model import OwnModel
from control.fleet_file.read import read
from control.fleet_file.schema import FleetFile
from control.offers.port import SHIPPED_MARKET, MarketView
from control.offers.prices import regions_by_cloud
from control.offers.quotes import Quotes
from control.planning.disks import charged_disks
from control.planning.fleet import Fleet
from control.planning.fleet_of import fleet_of, offer_sources
from control.planning.graph_apps import graph_apps_of
from control.planning.graph_sources import graph_recipes, graph_routes, not_promised, open_types
from control.planning.local_market import ZONE, local_gpu
from control.planning.recipe import GraphRecipe, PipelineRecipe, Recipe, UnitRecipe
from control.planning.sharing import alone_notes, unit_recipe, units_not_run, without_shared
from control.planning.startable import (
    apps_never_started,
    apps_not_startable,
    barred_apps,
    barred_clouds,
    never_started,
    not_startable,
    starts_of,
)
from control.planning.step_time_margins import step_time_margins
from control.planning.unit_sources import priced_units
from templates_lib.apps.graph_app import PublishedApp
from templates_lib.graphs.catalogue import graph_names
from templates_lib.load.shapes import catalogue
from templates_lib.models.catalogue import load_models, weights_places
from templates_lib.models.weights_place import absolute_place
from templates_lib.sources.unit_source import NamedUnit
from templates_lib.values.clouds import LOCAL, OWNED
from templates_lib.values.disks import NO_DISKS
from templates_lib.values.hardware import load_gpus
from templates_lib.values.instance import Instance
from templates_lib.values.library import Library
from templates_lib.values.settings import Guardrails
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.work import Demand


@dataclass(frozen=True, slots=True, eq=False)
class World:
    fleet: Fleet
    quotes: Quotes
    demand: tuple[Demand, ...]
    """Demand that is planned for. Of a metered app it is what the caller knows to have been metered; where that is
    nothing, its floor."""
    recipe: PipelineRecipe
    """Recipe of the templates of its text models."""
    weights: dict[str, str]
    """Model id → where its weights are (`templates_lib.models.weights_place`), as far as it is known."""
    notes: tuple[str, ...]
    """Notes on what its spec names, for people."""
    graphs: tuple[GraphRecipe, ...] = ()
    """Recipes of the templates of its any-to-any models."""
    also: tuple[NamedUnit, ...] = ()
    """Shared units that its prices ask for, where there are more than can be listed."""

    @property
    def sources(self) -> Recipe:
        """Return the recipe of its library."""
        dedicated = any(served.phases for served in self.recipe.served)
        return Recipe((*((self.recipe,) if dedicated else ()), *self._units, *self.graphs))

    @property
    def _units(self) -> tuple[UnitRecipe, ...]:
        """Return the recipe of the units of its models, which rests on the profiles of theirs, where there are some."""
        sharing = self.fleet.sharing
        found = None if sharing is None else unit_recipe(self.recipe, sharing, self.also)
        return () if found is None else (found,)

    @property
    def name(self) -> str:
        return self.fleet.name

    @property
    def never_started(self) -> tuple[str, ...]:
        """Why no plan of some of its models can be acted on, whatever it rents; empty: each can be started
        somewhere."""
        clouds = {offer.cloud for offer in self.quotes.offers}
        units = units_not_run(self.fleet.sharing, clouds)
        text = never_started(self.recipe.served, clouds)
        return (*text, *units, *apps_never_started(self.fleet.graph_apps, clouds))

    def quotes_on(self, market: MarketView) -> Quotes:
        """Return what its spec names on another market, as far as there are templates for it. Raises SpecError."""
        quotes, known = self.fleet.quotes(market), {config.id for config in self.recipe.nodes}
        kept = tuple(offer for offer in quotes.offers if offer.node_config in known)
        lacking = sorted({offer.node_config for offer in quotes.offers} - known)
        notes = (f"no template was made for {', '.join(lacking)}, which are newly sold",) if lacking else ()
        configs = {name: config for name, config in quotes.configs.items() if name in known}
        return replace(quotes, offers=kept, configs=configs, notes=(*quotes.notes, *notes))

    def snapshot(self, now: str, library: Library, instances: tuple[Instance, ...] = ()) -> Snapshot:
        """Make a snapshot without a version: the caller hashes it. `library`: of its templates; `instances`: that
        run."""
        clouds = {offer.cloud for offer in self.quotes.offers}
        charged = clouds if self.fleet.charges_disks else ()
        disks = charged_disks(self.recipe.served, self.fleet.graph_apps, library, charged)
        margins = step_time_margins(self.recipe, self.fleet.step_time_margin)
        for units in self._units:
            margins = step_time_margins(units, self.fleet.step_time_margin) | margins
        every = [*self.recipe.served, *(served for units in self._units for served in units.served)]
        text = {route.id: route for served in every for route in served.routes()}
        return Snapshot(
            version="",
            now=now,
            offers=self.quotes.offers,
            pools=self.quotes.pools,
            traffic=self.quotes.traffic,
            instances=instances,
            routes=(*text.values(), *graph_routes(self.sources)),
            demand=self.demand,
            settings=replace(self.fleet.settings, step_time_margins=margins or UNSET),
            library_version=library.version,
            cost_model_fingerprint=library.cost_model_fingerprint,
            disks=disks if disks != NO_DISKS else UNSET,
            barred=barred_clouds(self.recipe.served, clouds) | barred_apps(self.fleet.graph_apps, clouds) or UNSET,
        )


def read_world(path: Path, market: MarketView = SHIPPED_MARKET) -> World:
    """Raises SpecError with every problem of the file at once, OfferError for a market that cannot be had."""
    return world_of(parse(read_text(path), str(path)), market=market)


def world_of(document: Document, own: Collection[OwnModel] = (), market: MarketView = SHIPPED_MARKET) -> World:
    """The same of a text that was read already: relative paths in it begin where `document.file` is. `own`: models that
    it may name beside those of the catalogue."""
    file = read(document, _names(own))
    fleet, notes = fleet_of(file, document, own)
    quotes = fleet.quotes(market)
    bags: dict[str, set[str]] = {}
    for offer in quotes.offers:
        bags.setdefault(offer.zone_id, set()).add(offer.node_config)
    apps, limited = {app.name for app in fleet.graph_apps}, _with_most_replicas(fleet.settings.guardrails)
    recipe = PipelineRecipe(
        served=without_shared([served for app in fleet.apps for served in app.components], fleet.sharing),
        nodes=tuple(quotes.configs[c] for c in sorted(quotes.configs)),
        zone_bags=tuple(sorted({tuple(sorted(bag)) for bag in bags.values()})),
        n_max=file.solver.n_max,
        rho=file.solver.rho,
        slo_split=file.solver.slo_split,
        unpruned=tuple(each for each in limited if each not in apps),
        gpus=tuple(local_gpu(machine) for machine in fleet.machines),
        step_times=file.solver.step_times,
    )
    starts, partly = starts_of(recipe.engines, quotes.offers)
    recipe = replace(recipe, starts=starts, partly=partly)
    weights = weights_places() | {model.name: model.weights for model in own if model.weights}
    places = weights | _own_weights(file, Path(document.file).parent)
    clouds = {offer.cloud for offer in quotes.offers}
    notes = (*notes, *not_startable(recipe.served, clouds))
    notes = (*notes, *units_not_run(fleet.sharing, clouds), *alone_notes(fleet.sharing))
    counted = tuple(each for each in limited if each in apps)
    graphs = graph_recipes(fleet.graph_apps, recipe.nodes, recipe.gpus, counted)
    if graphs:
        unpromised = open_types(fleet.graph_apps)
        notes = (*notes, *((not_promised(unpromised),) if unpromised else ()))
        notes = (*notes, *apps_not_startable(fleet.graph_apps, {offer.cloud for offer in quotes.offers}))
    demand = fleet.demand({}, {}, {}, 0.0)
    units = None if fleet.sharing is None else unit_recipe(recipe, fleet.sharing)
    cap = fleet.settings.utilisation_cap
    also = () if units is None else priced_units(units, quotes.offers, demand, cap)
    return World(fleet, quotes, demand, recipe, places, notes, graphs, also)


def stated_apps(document: Document, own: Collection[OwnModel] = ()) -> tuple[PublishedApp, ...]:
    """Return the any-to-any models of a spec, whatever the market sells; `own` as in `world_of`. Raises SpecError."""
    return graph_apps_of(read(document, _names(own)), document).apps


def stated_quotes(document: Document, own: Collection[OwnModel]) -> tuple[Quotes, ...]:
    """Return the quotes that a spec itself states; `own` as in `world_of`. Raises SpecError with every problem at
    once."""
    return offer_sources(read(document, _names(own)), document).stated


def _own_weights(file: FleetFile, folder: Path) -> dict[str, str]:
    given = {model.model_id: model.weights for model in file.models if model.weights is not None}
    return {model: absolute_place(place, folder) for model, place in given.items()}


def _with_most_replicas(guardrails: Guardrails) -> tuple[str, ...]:
    """Pruning trades a template for smaller ones, hence for more instances; only an upper limit on those minds."""
    limited = {key.partition("/")[0] for key, bounds in guardrails.replicas.items() if bounds.max is not None}
    return tuple(sorted(limited))


def _names(own: Iterable[OwnModel]) -> Names:
    shipped = catalogue()
    return Names(
        models=frozenset(load_models()) | {model.name for model in own},
        gpus=frozenset(load_gpus()),
        shapes=frozenset(s.id for s in shipped.shapes),
        rates=frozenset(r.id for r in shipped.rates),
        graphs=frozenset(graph_names()),
        regions=regions_by_cloud() | {LOCAL: frozenset({ZONE}), OWNED: frozenset()},
    )
