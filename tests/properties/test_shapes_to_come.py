"""Units of the systems that will join Medley, written by hand as JSON, are planned like any other: as brute force does.

A unit that several models share (two classes, two operating points), a request of three legs over two zones, and a
cell that serves two kinds of request, each of which may also go another way.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from control.allocator import solve
from control.checker import check, claims_of
from control.planning.recipe import ListedRecipe
from control.planning.recording import Recording, decode, versioned
from templates_lib.sources.listed_source import ListedSource, ListedTemplate
from templates_lib.values.library import Library
from templates_lib.values.settings import Mode
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.template import OperatingPoint
from tests import factories as make
from tests.brute_force import Templates, best_plan

FOLDER = Path(__file__).parents[1] / "data" / "shapes_to_come"
FILES = sorted(FOLDER.glob("*.json"))
VARIANTS = 12


def read(path: Path) -> Recording:
    return decode(path.read_bytes(), path.name)


def recipe_of(recording: Recording) -> ListedRecipe:
    assert recording.recipe is not None
    (recipe,) = recording.recipe.sources
    assert isinstance(recipe, ListedRecipe)
    return recipe


def source_of(recording: Recording) -> ListedSource:
    recipe = recipe_of(recording)
    return ListedSource(recipe.classes, recipe.templates)


def library_of(source: ListedSource) -> Library:
    (batch,) = source.build(source.units(), lambda *_: None)
    return Library(
        "library-1",
        source.cost_model_fingerprint,
        source.configs,
        source.classes,
        batch.ids,
        batch.nodes,
        batch.point_template,
        batch.entry_point,
        batch.entry_class,
        batch.entry_units_per_s,
        source.engines,
        batch.template_engine,
    )


def templates_of(listed: tuple[ListedTemplate, ...]) -> Templates:
    return {t.template().id: (t.nodes, [p.units_per_s for p in t.points]) for t in listed}


def equals_brute_force(snapshot: Snapshot, listed: tuple[ListedTemplate, ...], library: Library) -> None:
    expected = best_plan(snapshot, templates_of(listed))
    plan = solve(snapshot, library)
    assert check(plan, snapshot, claims_of(library, (i.template_id for i in plan.instances))) == ()
    assert sum(plan.unmet.values()) == pytest.approx(expected.unmet_requests_per_s, abs=1e-4)
    assert plan.objective == pytest.approx(expected.objective, rel=1e-4, abs=1e-6)
    assert plan.bound <= expected.objective * (1 + 1e-6) + 1e-6


def variant(
    recording: Recording, seed: int, demand_range: tuple[float, float] = (0.4, 1.0)
) -> tuple[Snapshot, tuple[ListedTemplate, ...]]:
    """The same structure with other prices, demand, capacities, stock, a running instance and, at times, paper mode."""
    draw = np.random.default_rng(seed)
    listed = tuple(
        replace(
            t,
            points=tuple(
                OperatingPoint({k: round(v * draw.uniform(0.7, 1.3), 2) for k, v in p.units_per_s.items()})
                for p in t.points
            ),
        )
        for t in recipe_of(recording).templates
    )
    snapshot = recording.snapshot
    offers = tuple(
        replace(
            o,
            usd_per_hour=round(o.usd_per_hour * draw.uniform(0.6, 1.5), 4),
            available_count=int(draw.integers(max((o.available_count or 0) - 1, 0), (o.available_count or 0) + 1)),
        )
        for o in snapshot.offers
    )
    demand = tuple(
        replace(d, requests_per_s=round(d.requests_per_s * draw.uniform(*demand_range), 3)) for d in snapshot.demand
    )
    settings = replace(
        snapshot.settings,
        mode=Mode.PAPER if seed % 4 == 3 else Mode.ZONES,
        startup_minutes=float(draw.uniform(0, 30)),
    )
    changed = replace(snapshot, offers=offers, demand=demand, settings=settings, library_version="library-1")
    return versioned(replace(changed, instances=tuple(one_running(changed, listed, draw)))), listed


def one_running(
    snapshot: Snapshot, listed: tuple[ListedTemplate, ...], draw: np.random.Generator
) -> Iterator[make.Instance]:
    """An instance of a random template in a zone and market that sells all its nodes."""
    template = listed[int(draw.integers(len(listed)))].template()
    for offer in snapshot.offers:
        group = {o.node_config: o for o in snapshot.offers if (o.zone_id, o.market) == (offer.zone_id, offer.market)}
        if template.nodes.keys() <= group.keys():
            yield make.running(template.id, [group[c] for c, n in template.nodes.items() for _ in range(n)])
            return


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_the_file_as_it_is(path: Path) -> None:
    recording = read(path)
    source = source_of(recording)
    snapshot = versioned(replace(recording.snapshot, library_version="library-1"))
    equals_brute_force(snapshot, recipe_of(recording).templates, library_of(source))


@pytest.mark.parametrize("seed", range(VARIANTS))
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_other_prices_demand_stock_and_a_running_instance(path: Path, seed: int) -> None:
    recording = read(path)
    snapshot, listed = variant(recording, seed)
    equals_brute_force(snapshot, listed, library_of(ListedSource(recipe_of(recording).classes, listed)))


@pytest.mark.parametrize("seed", range(100, 106))
@pytest.mark.parametrize("name", ["shared_mesh", "two_paths"])
def test_what_supply_cannot_serve_is_the_least_possible(name: str, seed: int) -> None:
    recording = read(FOLDER / f"{name}.json")
    snapshot, listed = variant(recording, seed, demand_range=(3.2, 5.0))
    library = library_of(ListedSource(recipe_of(recording).classes, listed))
    equals_brute_force(snapshot, listed, library)
    assert solve(snapshot, library).unmet


def test_the_mesh_is_used_between_its_operating_points() -> None:
    """A mixture: neither point alone gives what the plan counts on."""
    recording = read(FOLDER / "shared_mesh.json")
    plan = solve(versioned(replace(recording.snapshot, library_version="library-1")), library_of(source_of(recording)))
    shared = [i for i in plan.instances if len(i.units_per_s) == 2]
    assert shared
    assert any(300 < i.units_per_s["chat/decode"] < 900 for i in shared)


def test_the_picture_route_crosses_zones_only_where_it_pays() -> None:
    recording = read(FOLDER / "three_legs.json")
    snapshot = versioned(replace(recording.snapshot, library_version="library-1"))
    plan = solve(snapshot, library_of(source_of(recording)))
    assert all(len(f.zones) == 3 for f in plan.flows)
    dear = tuple(replace(t, usd_per_gb=100.0) for t in snapshot.traffic)
    stay = solve(versioned(replace(snapshot, traffic=dear)), library_of(source_of(recording)))
    assert all(len(set(f.zones)) == 1 for f in stay.flows)


def test_the_two_kinds_of_request_share_a_cell_or_go_their_own_way() -> None:
    recording = read(FOLDER / "two_paths.json")
    snapshot = versioned(replace(recording.snapshot, library_version="library-1"))
    plan = solve(snapshot, library_of(source_of(recording)))
    served = {f.route for f in plan.flows}
    assert {r.request_type for r in snapshot.routes if r.id in served} == {"text", "image"}
