"""Small worlds whose best plans a brute force finds, so that what is said of them can be held to it."""

from dataclasses import dataclass

import numpy as np

from templates_lib.values.library import Library
from templates_lib.values.settings import Guardrails, Mode, Settings, WorkLimits
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.supply import SupplyPool
from tests import factories as make
from tests.brute_force import Templates

EXACT = WorkLimits(gap=0.0)
CLASSES = ("m/prefill", "m/decode")


@dataclass(frozen=True)
class World:
    snapshot: Snapshot
    templates: Templates

    @property
    def library(self) -> Library:
        return make.library([make.work_class(name) for name in CLASSES], self.templates)


def scarce_world(seed: int) -> World:
    """One or two zones, two kinds of nodes of which there are few, sometimes a quota: most plans use something up."""
    draw = np.random.default_rng(seed)
    zones = ["aws/a", "aws/b"][: int(draw.integers(1, 3))]
    offers = [
        make.offer(config, zone, round(float(size * draw.uniform(0.7, 1.3)), 2), int(draw.integers(1, 4)))
        for zone in zones
        for size, config in ((1, "A:1/n25"), (2, "B:1/n25"))
    ]
    templates: Templates = {
        f"{i:032x}": (nodes, [{work: round(float(units * draw.uniform(0.8, 1.2)), 1)}])
        for i, (nodes, work, units) in enumerate([
            ({"A:1/n25": 1}, "m/prefill", 100.0),
            ({"B:1/n25": 1}, "m/prefill", 220.0),
            ({"A:1/n25": 1}, "m/decode", 30.0),
            ({"A:1/n25": 1, "B:1/n25": 1}, "m/decode", 90.0),
        ])
    }  # fmt: skip
    pools = [SupplyPool("quota", 3.0, "vcpus", {o.key: 1.0 for o in offers}, "test")] if draw.random() < 0.3 else []
    snapshot = make.snapshot(
        offers,
        [make.route("m", {"m/prefill": 100.0, "m/decode": 20.0})],
        {"m": float(draw.uniform(1.0, 3.0))},
        pools=pools,
        settings=Settings(Mode.PAPER, utilisation_cap=1.0, limits=EXACT),
    )
    return World(snapshot, templates)


def one_kind_world(*, available: int | None, requests_per_s: float, **guardrails: object) -> World:
    """A node does prefill of 2 requests/s or decode of 2 requests/s for 1 $/h; a node twice as dear does as much."""
    offers = [make.offer("A:1/n25", "aws/a", 1.0, available), make.offer("B:1/n25", "aws/a", 2.0, 0)]
    templates: Templates = {
        f"{i:032x}": ({config: 1}, [{work: 2.0}])
        for i, (config, work) in enumerate((c, w) for c in ("A:1/n25", "B:1/n25") for w in CLASSES)
    }
    settings = Settings(
        Mode.PAPER, 1.0, startup_minutes=0.0, guardrails=Guardrails(**guardrails), limits=EXACT  # type: ignore[arg-type]
    )  # fmt: skip
    snapshot = make.snapshot(
        offers, [make.route("m", dict.fromkeys(CLASSES, 1.0))], {"m": requests_per_s}, settings=settings
    )
    return World(snapshot, templates)
