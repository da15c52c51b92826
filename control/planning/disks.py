"""What plans are charged for the disks of rented nodes, by the list prices of `data/prices/disks.csv`."""

from collections.abc import Collection, Iterable, Sequence
from functools import cache

import numpy as np

from control.offers.prices import data_rows
from templates_lib.apps.graph_app import PublishedApp, app_of
from templates_lib.apps.served_model import ServedModel
from templates_lib.models.node_disk import Weighed, disk_gib
from templates_lib.sources.placement_kinds import Placed, executors_of
from templates_lib.values.disks import NO_DISKS, Disks, key_of
from templates_lib.values.engine_set import engines_of
from templates_lib.values.library import Library


def charged_disks(
    served: Sequence[ServedModel], apps: Sequence[PublishedApp], library: Library, clouds: Iterable[str]
) -> Disks:
    """Return the disks of nodes that hold what the templates of a library hold, of text models and of apps, at the list
    prices of `clouds`. Clouds whose disks are not in the list, and machines of one's own, cost nothing here."""
    prices = {cloud: disk_prices()[cloud] for cloud in sorted({*clouds} & disk_prices().keys())}
    if not prices:
        return NO_DISKS
    sizes: dict[str, int] = {}
    kinds, of_template = library.kinds()
    there = np.flatnonzero(np.bincount(of_template, minlength=len(kinds)))
    for components, engines in (kinds[k] for k in there):
        held, graphs = _held(components, served, apps)
        if len(held) + len(graphs) == len(components) > 0:
            every = {one.engine for each in held for one in each.by_engine()}
            sizes[key_of(components)] = node_gib(held, every, graphs)
            if engines:
                sizes[key_of(components, engines)] = node_gib(held, engines_of(engines), graphs)
    return Disks(prices, sizes)


def node_gib(held: Iterable[ServedModel], engines: Collection[str], graphs: Iterable[PublishedApp] = ()) -> int:
    """Return the GiB of a rented node that has these engines and holds parts of these models and apps."""
    models: list[Weighed] = [each.model for each in held]
    return disk_gib([*models, *(app_of(each).graph for each in graphs)], engines)


def disk_of(placed: Placed, model: str, served: Iterable[ServedModel], apps: Iterable[PublishedApp]) -> int:
    """Return the same of a node of a template. `model`: what it serves, where its executors name no components."""
    parts = {executor.component for executor in executors_of(placed) or ()} or {model}
    held, graphs = _held(parts, served, apps)
    return node_gib(held, engines_on(placed), graphs)


def _held(
    components: Iterable[str], served: Iterable[ServedModel], apps: Iterable[PublishedApp]
) -> tuple[list[ServedModel], list[PublishedApp]]:
    """Return the models and the apps that these components are of."""
    names = set(components)
    return [each for each in served if any(map(each.is_component, names))], [app for app in apps if app.name in names]


def engines_on(placed: Placed) -> tuple[str, ...]:
    """Return the engines of a template's executors."""
    return tuple(executor.engine for executor in executors_of(placed) or ())


@cache
def disk_prices() -> dict[str, float]:
    """Cloud → list price of a GiB for a month."""
    return {row["cloud"]: float(row["usd_per_gib_month"]) for row in data_rows("disks.csv")}
