"""A whole site with spare capacity, of a tiny model: what `medley up` keeps up, without its planner."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec

from bench.text_tables import DECODE, PREFILL
from control.cloud.local.cloud import LocalCloud
from control.cloud.local.kind import LocalKind
from control.db.database import Database
from control.db.shared_clock import shared_clock
from control.demand.heard_load import HeardLoad
from control.diff.supply import supply_of
from control.diff.target import Target
from control.fleet.observer import NoObserver
from control.fleet.order import FleetOrder
from control.fleet.routing import Routing, gateway_model
from control.hub.deployed import ModelFiles
from control.lifecycle.history import PastTransition
from control.up.home import UpHome
from control.up.site import LoopParts, Site
from templates_lib.apps.served_model import ServedModel
from templates_lib.load.shapes import load_shape
from templates_lib.models.catalogue import load_models
from templates_lib.values.offer import Market, Offer
from templates_lib.values.placement import PipelinePlacement, Placement, Stage, StageNodes
from templates_lib.values.plan import Plan
from templates_lib.values.slo import Slo
from templates_lib.values.template import ServingTemplate, template_id
from tests.agents.engines.tiny_models import LAYERS, VOCABULARY
from tests.agents.hand_off.fleet import id_tokenizer

MODEL = "tiny"
CONTEXT = 256
KINDS = (LocalKind("small", 1.0, 900, 40), LocalKind("large", 1.0, 900, 40))
CUTS = {
    PREFILL: ((4, {"large": 1}), (2, {"small": 1})),
    DECODE: ((1, {"small": 1}), (3, {"small": 1, "large": 1}), (2, {"small": 1})),
}
"""Per stage: layers, and nodes of each kind."""
COPIES = 2
"""Of each leg: one may die."""


def site(
    home: UpHome, database: Database, checkpoint: Path, said: Callable[[PastTransition], None]
) -> tuple[Site, FleetOrder]:
    tokenizer = home.root / "tokenizer"
    id_tokenizer(tokenizer)
    wanted = tuple(_wanted(leg) for leg in CUTS)
    offers = tuple(_offer(kind) for kind in KINDS)
    files = ModelFiles(MODEL, f"path:{checkpoint}", VOCABULARY, CONTEXT)
    order = FleetOrder("chaos", wanted, (), supply_of(offers, (), {}, 0), {MODEL: files})
    model = replace(load_models()["smollm2-135m-instruct"], id=MODEL, max_context_tokens=CONTEXT)
    served = ServedModel(MODEL, model, Slo(5000, 1000), load_shape("sharegpt"), engine="torch")
    routing = Routing(_plan(), {MODEL: gateway_model(served, str(tokenizer), 1_700_000_000)})
    cloud, now = LocalCloud(home.cloud, KINDS), shared_clock(database)
    site = Site(home, database, cloud, lambda parts: _Loop(parts, order, routing, said), "127.0.0.1", 0, now)
    return site, order


class _Loop(NoObserver):
    """Keeps one order."""

    def __init__(
        self, parts: LoopParts, order: FleetOrder, routing: Routing, said: Callable[[PastTransition], None]
    ) -> None:
        self.heard = HeardLoad()
        self._keeper = parts.keeper
        self._said = said
        parts.keeper.observer = self
        parts.keeper.keep(replace(order, starts={"local": parts.start}))
        parts.publisher.serve(order.name, routing)

    def load(self) -> None:
        self._keeper.load()

    def tick(self) -> None:
        self._keeper.tick()

    def wake(self, fleet: str, why: str) -> None:
        """It has one plan."""

    def on_transition(self, fleet: str, step: PastTransition) -> None:  # noqa: ARG002
        self._said(step)


def _wanted(leg: str) -> Target:
    stages, first = [], 0
    for layers, nodes in CUTS[leg]:
        weight = 1 / sum(nodes.values())
        peers = tuple(StageNodes(kind, count, weight, 1, 1, 1, 1, 8, 32, 96) for kind, count in nodes.items())
        stages.append(Stage(first, layers, first == 0, first + layers == LAYERS, peers))
        first += layers
    placement = Placement("pipeline", 1, msgspec.to_builtins(PipelinePlacement(tuple(stages))))
    counts: dict[str, int] = {}
    for _, nodes in CUTS[leg]:
        for kind, count in nodes.items():
            counts[kind] = counts.get(kind, 0) + count
    content = (MODEL, "", "fp32", "torch", "lockstep-v1", counts, placement)
    template = ServingTemplate(template_id(*content), *content)
    return Target("plan", MODEL, template, "local/here", Market.ON_DEMAND, COPIES, {f"{MODEL}/{leg}": 1000.0}, 0.0)


def _offer(kind: LocalKind) -> Offer:
    return Offer("local", "here", "here", kind.name, kind.name, Market.ON_DEMAND, kind.cpu_cores, kind.stock)


def _plan() -> Plan:
    return Plan("plan", "", "", "medley", (), (), (), 0, 0, 0, 0, 0, {}, 0, 0, 0, 0, "optimal")
