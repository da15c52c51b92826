"""Templates of shared units for a fleet: their source, which units are made, and why a model is in none."""

from collections import Counter
from collections.abc import Iterable, Iterator
from math import comb

from control.planning.cost_models import cost_models_of, evidence_of, gpus_of
from control.planning.recipe import UnitRecipe
from policies.shared_units.generation import SoldNode, UnitMarket, generate_units, neighbours
from templates_lib.apps.served_model import ServedModel
from templates_lib.sources.unit_source import LEAST_MEMBERS, MOST_LISTED, NamedUnit, UnitSource
from templates_lib.units.job_times import Lengths
from templates_lib.units.unit_capacity import ServedMember
from templates_lib.values.library import Library
from templates_lib.values.offer import Offer
from templates_lib.values.work import Demand, Phase

UNLIMITED = 1_000
"""Nodes of an offer whose stock nobody knows, for the prices of units."""
PRICE_ROUNDS = 8
"""Of the relaxation: specs are read often, and it takes a second or so each."""
MOST_PRICED = 4_000
"""Units that are made because prices ask for them, and their neighbours."""


def unit_source(recipe: UnitRecipe) -> UnitSource:
    """Raises ValueError for a GPU that nobody knows."""
    members = [_member(served) for served in recipe.served]
    (times,) = cost_models_of(recipe).values()
    return UnitSource(members, recipe.nodes, gpus_of(recipe), times, most_members=recipe.most_members, also=recipe.also)


def _member(served: ServedModel) -> ServedMember:
    shape, model = served.shape, served.model
    prompt = shape.prompt_percentile(served.slo.percentile)
    return ServedMember(
        served.name,
        model,
        Lengths(*shape.mean_tokens),
        longest_tokens(served),
        served.slo.first_token_ms(prompt) / 1e3,
        served.slo_ms(Phase.DECODE) / 1e3,
        prompt,
        shape.id,
    )


def longest_tokens(served: ServedModel) -> int:
    """Return the prompt and output of the longest request that a model is planned for."""
    longest = int((served.shape.prompt_tokens.astype("int64") + served.shape.output_tokens).max())
    return min(longest, served.model.max_context_tokens or longest)


def unit_evidence(recipe: UnitRecipe) -> str:
    return f"{evidence_of(recipe)} for shared units"


def unit_unservable(recipe: UnitRecipe, library: Library) -> Iterator[str]:
    """A line for each model that only shares and is in no unit of `library`."""
    several = {name for components, _ in library.kinds()[0] if len(components) > 1 for name in components}
    for name in sorted(recipe.only - several):
        yield (
            f"{name}: `share: only`, and there is no unit of it: no node on offer has room for it beside another model "
            "of the fleet, within the objectives of both; set `share: auto`, or offer larger nodes"
        )


def priced_units(
    recipe: UnitRecipe, offers: Iterable[Offer], demand: Iterable[Demand], cap: float
) -> tuple[NamedUnit, ...]:
    """Return units that the prices of a relaxation ask for, and their neighbours, where a node has more units than are
    listed; `cap`: share of their capacity that plans use."""
    models, sizes = len(recipe.served), range(LEAST_MEMBERS, recipe.most_members + 1)
    if sum(comb(models, size) for size in sizes) <= MOST_LISTED:
        return ()  # whatever fits
    source = unit_source(recipe)
    market = _market(recipe, source, offers, demand, cap)
    if not market.requests_per_s or not market.sold or all(map(source.has_all, recipe.nodes)):
        return ()
    found = [unit for unit in generate_units(market, PRICE_ROUNDS).units if len(unit.members) >= LEAST_MEMBERS]
    alike: dict[tuple[str, int], list[str]] = {}
    for node in recipe.nodes:
        alike.setdefault((node.gpu, node.gpu_count), []).append(node.id)
    every = {
        NamedUnit(config, unit.members): None
        for unit in (*found, *neighbours(market, found))
        for config in alike[unit.node.gpu, unit.node.gpu_count]
        if LEAST_MEMBERS <= len(unit.members) <= recipe.most_members
    }
    return tuple(every)[:MOST_PRICED]


def _market(
    recipe: UnitRecipe, source: UnitSource, offers: Iterable[Offer], demand: Iterable[Demand], cap: float
) -> UnitMarket:
    """What units may be made of: nodes of as many GPUs of a type, which do the same, by their cheapest offer, and
    as many as all their offers have together."""
    by_id = {node.id: node for node in recipe.nodes}
    cheapest: dict[tuple[str, int], Offer] = {}
    counts: Counter[tuple[str, int]] = Counter()
    for offer in (each for each in offers if each.node_config in by_id and each.available_count != 0):
        node = by_id[offer.node_config]
        kind = node.gpu, node.gpu_count
        known = cheapest.setdefault(kind, offer)
        cheapest[kind] = offer if offer.usd_per_hour < known.usd_per_hour else known
        counts[kind] += UNLIMITED if offer.available_count is None else offer.available_count
    sold = (SoldNode(by_id[o.node_config], o.usd_per_hour, counts[kind]) for kind, o in sorted(cheapest.items()))
    uses = {name: use for node in recipe.nodes for name, use in source.uses(node).items()}
    rates = {d.app: d.requests_per_s / cap for d in demand if d.app in source.members and d.requests_per_s > 0}
    return UnitMarket(tuple(sold), uses, gpus_of(recipe), rates)
