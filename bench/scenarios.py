"""The set-ups of the Coral paper's section 6.3-6.5 as snapshots over one library each."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from control.cli.planning import session
from control.offers.availability import Availability, read_availability
from control.planning.recording import Recording, versioned
from control.planning.session import PlanningSession
from control.planning.templates import Templates
from control.planning.world import read_world
from templates_lib.values.snapshot import Snapshot

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
NOW = "2026-11-21T00:00:00+00:00"
LARGE = {"core": ("qwen3-32b",), "extended": ("qwen3-235b-a22b", "gpt-oss-120b")}
SMALL = {"core": ("phi-4-14b",), "extended": ("phi-4-14b", "gpt-oss-20b")}
HEAVY_SHARE = 0.8
"""Of all requests, to the third of the models that the scenario leans on."""


@dataclass(frozen=True, slots=True, eq=False)
class SetUp:
    """`core` or `extended`: its recorded snapshot, with templates and a session to plan with."""

    name: str
    session: PlanningSession
    recording: Recording
    templates: Templates

    @property
    def snapshot(self) -> Snapshot:
        return self.recording.snapshot

    def heavy(self, snapshot: Snapshot, apps: tuple[str, ...]) -> Snapshot:
        """The same total rate, HEAVY_SHARE of it to `apps` in equal parts, the rest to the others."""
        total = sum(d.requests_per_s for d in snapshot.demand)
        others = len(snapshot.demand) - len(apps)
        rate = {True: HEAVY_SHARE * total / len(apps), False: (1 - HEAVY_SHARE) * total / others}
        demand = tuple(replace(d, requests_per_s=rate[d.app in apps]) for d in snapshot.demand)
        return versioned(replace(snapshot, demand=demand))

    def demands(self) -> dict[str, Snapshot]:
        """Balanced, large-heavy and small-heavy demand on the snapshot's own availability."""
        return {
            "balanced": self.snapshot,
            "large-heavy": self.heavy(self.snapshot, LARGE[self.name]),
            "small-heavy": self.heavy(self.snapshot, SMALL[self.name]),
        }


@contextmanager
def world_session(example: str | Path, *, keep: bool = False) -> Iterator[tuple[PlanningSession, Recording, Templates]]:
    """A file, of examples/ unless it is a whole path, with its library, built when it is not there yet; `keep`: as if
    its models promised percentile 99."""
    world = read_world(EXAMPLES / example)
    if keep:
        served = tuple(replace(s, slo=replace(s.slo, queueing=True)) for s in world.recipe.served)
        world = replace(world, recipe=replace(world.recipe, served=served))
    with session(None) as opened:
        yield opened, *opened.record(world, NOW)


@contextmanager
def set_up(name: str, *, keep: bool = False) -> Iterator[SetUp]:
    with world_session(f"coral-{name}.yaml", keep=keep) as (opened, recording, templates):
        yield SetUp(name, opened, recording, templates)


def with_supply(snapshot: Snapshot, facts: tuple[Availability, ...]) -> Snapshot:
    """Every offer's count as `facts` has it; one that no fact names cannot be had."""
    offers = []
    for offer in snapshot.offers:
        counts = [fact.nodes for fact in facts if fact.matches(offer)]
        offers.append(replace(offer, available_count=counts[0] if counts else 0))
    return versioned(replace(snapshot, offers=tuple(offers)))


def scarce(snapshot: Snapshot, name: str) -> Snapshot:
    return with_supply(snapshot, read_availability(EXAMPLES / f"availability-{name}-scarce.csv"))
