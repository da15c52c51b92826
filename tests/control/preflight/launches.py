"""A launch that can work, what is found of it, and what can be wrong with it."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from control.cloud.port import Cloud
from control.offers.cloud_reader import CloudReader
from control.offers.quota import Quota, QuotaAnswer
from control.preflight.finding import Finding, Status
from control.preflight.planned import Planned
from control.preflight.site import Site
from control.preflight.walk import preflight
from templates_lib.values.offer import Market, Offer
from templates_lib.values.plan import Flow, PlannedOffer
from templates_lib.values.reach import Reach
from templates_lib.values.supply import SupplyPool
from tests.control.cloud.fake_cloud import FakeCloud
from tests.control.planning.worlds import KEEP_SPEC
from tests.hub_server import Hub

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
REPOSITORY = "openai/gpt-oss-20b"
SPEC = KEEP_SPEC.format(keep="throughput")
CONFIG = {"model_type": "gpt_oss", "num_hidden_layers": 24, "hidden_size": 2880, "vocab_size": 201088}
TENSORS = {
    "model.embed_tokens.weight": "a.safetensors",
    **{f"model.layers.{n}.x": "a.safetensors" if n < 12 else "b.safetensors" for n in range(24)},
}
PUBLIC = "8.8.8.8"
PEERED = Reach((frozenset({"aws/us-east-1", "aws/us-east-2"}),))


def quota(offers: Sequence[Offer], limit: float = 1e6, used: float | None = 0.0) -> QuotaAnswer:
    """One quota for all offers, of which each node takes a unit."""
    pool = SupplyPool("aws/all", limit, "nodes", {each.key: 1.0 for each in offers}, "a quota")
    return QuotaAnswer((Quota(pool, used, "a page"),))


def walked(planned: Planned, address: str = PUBLIC, cloud: Cloud | None = None, **site: object) -> dict[str, Finding]:
    site = {"readers": {"aws": CloudReader(quota)}, **site}
    there: dict[str, Callable[[], Cloud]] = {"aws": lambda: cloud or FakeCloud("aws", {})}
    found = list(preflight(planned, Site(address, there, NOW, **site)))  # type: ignore[arg-type]
    assert len({(each.name, each.subject) for each in found}) == len(found), "each thing is looked at once"
    of_name: dict[str, Finding] = {}
    for each in found:  # of several GPUs the first that fails
        if of_name.setdefault(each.name, each).status is not Status.FAIL:
            of_name[each.name] = each
    return of_name


def failing(found: dict[str, Finding]) -> set[str]:
    return {name for name, each in found.items() if each.status is Status.FAIL}


def with_gpu(made: Planned, cloud: str, name: str) -> Planned:
    """The plan with another GPU at another cloud."""
    instances = [replace(each, zone=f"{cloud}/a", nodes={f"{name}:1/n10": 1}) for each in made.plan.instances]
    return replace(made, plan=replace(made.plan, instances=tuple(instances)))


def as_pods(made: Planned) -> Planned:
    """The plan with two pods of RunPod instead, each an instance of its own."""
    offer = Offer("runpod", "any", "any", "1x_L40S_SECURE", "L40S:1/n0", Market.ON_DEMAND, 0.86)
    world = replace(made.world, quotes=replace(made.world.quotes, offers=(offer,)))
    rented = PlannedOffer(offer.key, offer.node_config, 2, 0, offer.usd_per_hour)
    instances = tuple(replace(each, zone=offer.zone_id, nodes={offer.node_config: 1}) for each in made.plan.instances)
    return Planned(world, replace(made.plan, instances=instances, offers=(rented,), flows=()))


def without_config(hub: Hub) -> None:
    hub.files = {REPOSITORY: {"tokenizer.json": b"{}"}}


def other_config(hub: Hub) -> None:
    other = json.dumps(CONFIG | {"num_hidden_layers": 36}).encode()
    hub.files = {REPOSITORY: {**hub.files[REPOSITORY], "config.json": other}}


def without(name: str) -> Callable[[Hub], None]:
    def remove(hub: Hub) -> None:
        files = hub.files[REPOSITORY]
        hub.files = {REPOSITORY: {each: files[each] for each in files if each != name}}

    return remove


def gated(hub: Hub) -> None:
    hub.token = "secret"  # noqa: S105


def moved(hub: Hub) -> None:
    hub.files = {"openai/elsewhere": hub.files[REPOSITORY]}


def too_large(hub: Hub) -> None:
    hub.sizes = {"a.safetensors": int(100e9), "b.safetensors": 1}


def broken_index(hub: Hub) -> None:
    hub.files = {REPOSITORY: {**hub.files[REPOSITORY], "model.safetensors.index.json": b"[1]"}}


def broken_config(hub: Hub) -> None:
    hub.files = {REPOSITORY: {**hub.files[REPOSITORY], "config.json": b"[1]"}}


def spread(made: Planned, *zones: str, reach: Reach = Reach(), mode: str = "zones") -> Planned:  # noqa: B008
    """The plan with its legs in these zones, one after the other."""
    route = made.plan.flows[0].route
    legs = made.world.recipe.served[0].routes()[0].legs
    one, places = made.world.quotes.offers[0], [zone.split("/") for zone in zones]
    offers = [replace(one, cloud=cloud, region=region, zone=region) for cloud, region in places]
    world = replace(
        made.world,
        quotes=replace(made.world.quotes, offers=tuple(offers)),
        fleet=replace(made.world.fleet, sources=replace(made.world.fleet.sources, reach=reach)),
    )
    instances = [
        replace(made.plan.instances[0], zone=zone, units_per_s={leg.work_class: 1.0})
        for zone, leg in zip(zones, legs, strict=True)
    ]
    at = zones if mode == "zones" else ("",) * len(zones)
    plan = replace(made.plan, instances=tuple(instances), flows=(Flow(route, at, 1.0, 0.0),))
    return Planned(world, plan)
