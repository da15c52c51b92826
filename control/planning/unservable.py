"""Reasons why models of a recipe are in no template."""

from collections.abc import Iterator

import numpy as np

from control.planning.cost_models import cost_models_of, gpus_of, how_to_measure
from control.planning.recipe import PipelineRecipe
from templates_lib.apps.served_model import ServedModel
from templates_lib.sources.enumeration import config_bytes, node_sets
from templates_lib.throughput.nearest import NearestMiss, nearest_miss
from templates_lib.values.engine_limits import most_nodes
from templates_lib.values.engines import support_of
from templates_lib.values.gpu import GIB
from templates_lib.values.library import Library
from templates_lib.values.work import Phase


def unservable(recipe: PipelineRecipe, library: Library) -> Iterator[str]:
    """A line for each phase that `library` lacks of a model that no route of its can serve."""
    yield from (_why(recipe, served, phase) for served, phase in lacking(recipe, library))


def lacking(recipe: PipelineRecipe, library: Library) -> Iterator[tuple[ServedModel, Phase]]:
    """Yield the phases that `library` lacks, of models that no route of theirs can serve."""
    possible = {library.classes[k].id for k in set(library.entry_class.tolist())}
    for served in recipe.served:
        routes = served.routes()
        if any(all(leg.work_class in possible for leg in route.legs) for route in routes):
            continue
        yield from ((served, p) for p in served.phases if served.class_id(p) not in possible)


def nearest_to(recipe: PipelineRecipe, served: ServedModel, phase: Phase) -> NearestMiss | None:
    """The configuration nearest to an objective that none can meet, by the engine that is nearest; None: as of
    `nearest_miss`."""
    gpus, cost_models = gpus_of(recipe), cost_models_of(recipe)
    misses = []
    for each, nodes in recipe.by_engine(served):
        most_bytes, n_max = recipe.rho * each.model.weight_bytes, most_nodes(support_of(each.engine), recipe.n_max)
        most = [min(n_max, int(most_bytes // config_bytes(node, gpus))) for node in nodes]
        misses.append(nearest_miss(each, phase, nodes, gpus, cost_models[each.engine], most))
    return min(filter(None, misses), key=lambda miss: miss.needs_ms, default=None)


def _why(recipe: PipelineRecipe, served: ServedModel, phase: Phase) -> str:
    gpus = gpus_of(recipe)
    # What cuts a model over the most nodes holds the largest one.
    widest, nodes = max(recipe.by_engine(served), key=lambda each: most_nodes(support_of(each[0].engine), recipe.n_max))
    weights, most_bytes = widest.model.weight_bytes, recipe.rho * widest.model.weight_bytes
    sizes = [config_bytes(node, gpus) for node in nodes]
    if min(sizes, default=0.0) > most_bytes:
        return (
            f"{served.name}: no node is small enough: the smallest has {min(sizes) / GIB:.1f} GiB, but rho "
            f"{recipe.rho:g} allows {most_bytes / GIB:.1f} GiB for weights of {weights / GIB:.1f} GiB; raise solver.rho"
        )
    bags = [frozenset(bag) for bag in recipe.zone_bags]
    n_max = most_nodes(support_of(widest.engine), recipe.n_max)
    members = node_sets(widest.model, nodes, gpus, bags, n_max, recipe.rho).members
    largest = float(np.append(sizes, 0.0)[members].sum(axis=1).max(initial=0.0))
    if 0 < largest < weights:
        return (
            f"{served.name} is larger than every node set: its weights are {weights / GIB:.1f} GiB, "
            f"the largest set within n_max {n_max} and rho {recipe.rho:g} holds {largest / GIB:.1f} GiB; "
            + ("raise solver.n_max or solver.rho, or offer larger nodes" if n_max == recipe.n_max else _of_one(widest))
        )
    miss = nearest_to(recipe, served, phase)
    if miss is None:
        return (
            f"{served.name} cannot run {phase.value} on any node on offer, however slowly: its data types "
            f"({widest.model.dtype}, KV cache {widest.model.kv_dtype}), its size, or passing its KV cache on in "
            f"time{' (slo.keep: to short answers too)' if served.slo.queueing else ''} rule them out; offer other "
            "nodes or relax its SLO"
        )
    advice = how_to_measure(recipe)
    if served.slo.queueing:
        advice = "; ".join(filter(None, ("slo.keep has it leave time for waiting", advice)))
    return (
        f"{served.name}: no configuration meets its objective for {phase.value}; {miss}; "
        f"relax its SLO or offer faster nodes{f'; {advice}' if advice else ''}"
    )


def _of_one(served: ServedModel) -> str:
    return (
        f"engine {served.engine} has a whole model on one node: offer larger nodes, raise solver.rho, or leave "
        "`engine` out"
    )
