"""A measurement of rented nodes as somebody asks for it: which model, by what offers, within which limits."""

from dataclasses import dataclass, field

from control.actions.measure_rented import Measurement
from control.market.view import StoredMarket
from control.offers.quotes import Quotes
from control.offers.selection import Selection
from control.planning.disks import disk_prices
from control.planning.rented_profiles import CUDA
from control.planning.world import World
from control.profiles.quotation import Limits, QuotationError, Wanted, quote
from templates_lib.models.catalogue import load_models, weights_places
from templates_lib.models.held_model import held_by, refusal_at
from templates_lib.models.model_spec import ModelSpec
from templates_lib.models.node_disk import disk_gib
from templates_lib.values.clouds import CLOUDS, LOCAL, OWNED, Span, cloud_kind
from templates_lib.values.disks import Disks
from templates_lib.values.engines import DEFAULT_ENGINE
from templates_lib.values.nearest_name import nearest_name
from templates_lib.values.offer import Market, zone_id
from templates_lib.values.settings import Settings

DEFAULT_MODEL = "qwen3-32b"
"""A dense model whose repository asks for no token."""


@dataclass(frozen=True, slots=True)
class AskedMeasurement:
    cloud: str
    config: str
    """`L40S:1`, or with its network class `L40S:1/n10`."""
    model: str = ""
    """Model of the catalogue, or of the spec, by its id or name there; empty: the spec's only one, or DEFAULT_MODEL."""
    zone: str = ""
    spot: bool = False
    pair: bool = False
    """Whether a second node is rented, for what lies between two."""
    device: str = CUDA
    limits: Limits = field(default_factory=lambda: Limits(5.0, 45.0))


def measurement_of(asked: AskedMeasurement, market: StoredMarket, world: World | None) -> Measurement:
    """Say what is measured, and what it may cost. `world`: of a spec, whose model, offers and hosts it takes.

    Raises QuotationError, ValueError for a model or engine that nodes there do not run, OfferError."""
    _check_cloud(asked.cloud)
    model, weights = _model(asked.model, world)
    if model.stored is not None and (why := refusal_at(asked.cloud, DEFAULT_ENGINE, model.id, model.stored)):
        raise ValueError(why)
    if asked.pair and cloud_kind(asked.cloud).span is Span.NONE:
        raise QuotationError(f"--pair: nodes of {asked.cloud} are in no network in which one reaches the other")
    held, gib = held_by(DEFAULT_ENGINE, model), 0 if asked.cloud == OWNED else disk_gib([model], [DEFAULT_ENGINE])
    usd = Disks(disk_prices(), {}).usd_per_hour(zone_id(asked.cloud, asked.zone), gib)
    of_market = Market.SPOT if asked.spot else Market.ON_DEMAND
    wanted = Wanted(
        asked.cloud, asked.config, Market.OWNED if asked.cloud == OWNED else of_market, asked.zone,
        2 if asked.pair else 1, usd,
    )  # fmt: skip
    quotation = quote(_quotes(asked, market, world), wanted, asked.limits)
    return Measurement(quotation, held, DEFAULT_ENGINE, weights, asked.device, gib)


def _check_cloud(cloud: str) -> None:
    """Raises ValueError for a cloud at which no node is rented to be measured."""
    rented = [name for name, kind in CLOUDS.items() if kind.adapter and name != LOCAL]
    if cloud == LOCAL:
        raise ValueError("--cloud local: nodes of this machine are measured by -f SPEC alone")
    if cloud not in rented:
        raise ValueError(f"--cloud {cloud}: no node is rented there; {nearest_name(cloud, rented)}")


def _quotes(asked: AskedMeasurement, market: StoredMarket, world: World | None) -> Quotes:
    if world is not None:
        return world.quotes
    selection = Selection(asked.cloud, markets=(Market.ON_DEMAND, Market.SPOT))
    return market.judged(market.offers([selection]), Settings().guardrails.max_unproven_nodes)


def _model(name: str, world: World | None) -> tuple[ModelSpec, str]:
    """Return the model as published, and where its weights are. Raises ValueError."""
    known, places = load_models(), weights_places()
    if world is not None:
        of_spec = {each.name: each.model for each in world.recipe.served}
        known = known | {model.id: model for model in of_spec.values()} | of_spec
        places = places | world.weights
        if not name and len(of_spec) != 1:
            raise ValueError(f"--model: the spec has {len(of_spec)} models; choose one of {', '.join(of_spec)}")
        name = name or next(iter(of_spec))
    name = name or DEFAULT_MODEL
    if name not in known:
        raise ValueError(f"--model {name}: no such model; {nearest_name(name, known)}")
    if known[name].id not in places:
        raise ValueError(f"--model {name}: it is not known where its weights are; set `weights` in a spec (-f)")
    return known[name], places[known[name].id]
