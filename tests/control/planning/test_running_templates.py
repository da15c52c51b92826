"""What runs when an objective is tightened counts with what it sustains under the new one, or not at all."""

from pathlib import Path

from control.db.database import Database
from control.db.libraries import PostgresLibraries
from control.planning.recipe import ListedRecipe, Recipe
from control.planning.templates import Templates, obtain, stored_template
from templates_lib.sources.listed_source import ListedTemplate
from templates_lib.values.library import Library
from templates_lib.values.offer import Market
from templates_lib.values.placement import Placement
from templates_lib.values.plan import PlannedInstance
from templates_lib.values.template import OperatingPoint, Software
from tests.control.planning.worlds import world_of
from tests.factories import plan as plan_of
from tests.factories import work_class

SPEC = """\
apiVersion: medley/v1
kind: Fleet
name: chat
models:
  - model: gpt-oss-20b
    slo: {{ttft_ms: {ttft_ms}, tpot_ms: {tpot_ms}, keep: throughput}}
    workload: azure-conversation
    demand: {{requests_per_s: 20}}
clouds:
  - {{cloud: aws, regions: [us-east-2], gpus: [L40S, L4]}}
solver: {{n_max: 2}}
"""


def capacities(library: Library) -> dict[str, float]:
    of_template = library.point_template[library.entry_point]
    return {library.template_id(int(t)): float(u) for t, u in zip(of_template, library.entry_units_per_s, strict=True)}


def test_a_plan_says_what_runs_whatever_its_library_was_made_from(database: Database, tmp_path: Path) -> None:
    """A fleet whose templates are listed by now still runs one that was enumerated."""
    store = PostgresLibraries(database)
    world = world_of(tmp_path, SPEC.format(ttft_ms=1500, tpot_ms=60))
    enumerated = obtain(Recipe((world.recipe,)), store, lambda *_: None).library
    name = enumerated.template_id(0)
    placement = Placement("boxes", 1, {})
    of_mine = ListedTemplate(
        Software("m", "1", "bf16", "e", "d"), {"L4:1/n10": 1}, placement, (OperatingPoint({"m/serve": 2.0}),)
    )
    recipe = Recipe((ListedRecipe((*enumerated.classes, work_class("m/serve")), (of_mine,)),))
    templates = obtain(recipe, store, lambda *_: None, {name})
    assert {name, of_mine.template().id} <= capacities(templates.library).keys()
    wanted = [
        PlannedInstance(each, "m", "serve", "aws/use2-az1", Market.ON_DEMAND, count, 0, {}, {}, 0.0)
        for each, count in ((name, 1), (of_mine.template().id, 2), (name, 3))
    ]
    plan, certified = templates.placed(plan_of(wanted, [], []))
    enumerated_placement = stored_template(store, name).template.placement
    assert [each.placement for each in plan.instances] == [enumerated_placement, placement, enumerated_placement]
    assert {each.template_id for each in certified} == {name, of_mine.template().id}
    assert len(certified) == 2


def test_a_tighter_objective_lowers_what_running_templates_count_for(database: Database, tmp_path: Path) -> None:
    store = PostgresLibraries(database)

    def of(ttft_ms: int, tpot_ms: int, running: frozenset[str] = frozenset()) -> Templates:
        world = world_of(tmp_path, SPEC.format(ttft_ms=ttft_ms, tpot_ms=tpot_ms))
        return obtain(Recipe((world.recipe,)), store, lambda *_: None, running)

    old, alone = of(1500, 60), of(1200, 40)
    before, native = capacities(old.library), capacities(alone.library)
    tight = of(1200, 40, frozenset(before)).library
    assert tight.version == alone.library.version
    now = capacities(tight)
    running = {name: units for name, units in now.items() if name not in native}
    assert running.keys() < before.keys(), "some can keep it, and some cannot"
    assert all(units <= before[name] for name, units in running.items())
    assert any(units < before[name] for name, units in running.items())
    assert {stored_template(store, name).capacity.slo_ms for name in running} <= {1200.0, 40.0}
    # Whoever reads the library with what runs later finds the same; so does the next solve, which builds nothing.
    assert capacities(store.load(tight.version, before.keys())) == now
    libraries = store.libraries()
    assert capacities(of(1200, 40, frozenset(before)).library) == now
    assert store.libraries() == libraries
    # The same objective again: as it was.
    assert capacities(of(1500, 60, frozenset(before)).library) == before
