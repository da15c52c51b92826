"""What plans are charged for the disks of rented nodes, by the list prices of `data/prices/disks.csv`."""

from collections.abc import Collection, Iterable, Sequence
from functools import cache

import numpy as np

from control.offers.prices import data_rows
from templates_lib.apps.served_model import ServedModel
from templates_lib.models.node_disk import disk_gib
from templates_lib.sources.placement_kinds import Placed, executors_of
from templates_lib.values.disks import NO_DISKS, Disks, key_of
from templates_lib.values.engine_set import engines_of
from templates_lib.values.library import Library


def charged_disks(served: Sequence[ServedModel], library: Library, clouds: Iterable[str]) -> Disks:
    """Return the disks of nodes that hold what the templates of a library hold, at the list prices of `clouds`. Clouds
    whose disks are not in the list, and machines of one's own, cost nothing here."""
    prices = {cloud: disk_prices()[cloud] for cloud in sorted({*clouds} & disk_prices().keys())}
    if not prices:
        return NO_DISKS
    sizes: dict[str, int] = {}
    kinds, of_template = library.kinds()
    there = np.flatnonzero(np.bincount(of_template, minlength=len(kinds)))
    for components, engines in (kinds[k] for k in there):
        held = [each for each in served if any(map(each.is_component, components))]
        if len(held) == len(components) > 0:
            every = {one.engine for each in held for one in each.by_engine()}
            sizes[key_of(components)] = node_gib(held, every)
            if engines:
                sizes[key_of(components, engines)] = node_gib(held, engines_of(engines))
    return Disks(prices, sizes)


def node_gib(held: Iterable[ServedModel], engines: Collection[str]) -> int:
    """Return the GiB of a rented node that has these engines and holds parts of these models."""
    return disk_gib([each.model for each in held], engines)


def disk_of(placed: Placed, model: str, served: Iterable[ServedModel]) -> int:
    """Return the same of a node of a template. `model`: what it serves, where its executors name no components."""
    parts = {executor.component for executor in executors_of(placed) or ()} or {model}
    return node_gib([each for each in served if any(map(each.is_component, parts))], engines_on(placed))


def engines_on(placed: Placed) -> tuple[str, ...]:
    """Return the engines of a template's executors."""
    return tuple(executor.engine for executor in executors_of(placed) or ())


@cache
def disk_prices() -> dict[str, float]:
    """Cloud → list price of a GiB for a month."""
    return {row["cloud"]: float(row["usd_per_gib_month"]) for row in data_rows("disks.csv")}
