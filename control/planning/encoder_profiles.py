"""Measured encoders of a fleet's apps, on the nodes of this machine that it may use."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from control.cloud.local.kinds import LocalMachine
from control.planning.world import World
from control.profiles.encoder_sweep import EncoderJob, EncoderProfiles, sweep_encoders
from control.profiles.subject import ProfileSubject, part_subject
from templates_lib.apps.graph_app import GraphApp, app_of
from templates_lib.cost.measured_component import component_key
from templates_lib.graphs.component import Component, ComponentKind
from templates_lib.ports.source import Progress
from templates_lib.sources.graph_source import PROCESSOR_DTYPE
from templates_lib.values.clouds import LOCAL
from templates_lib.values.component_profile import ComponentProfile
from templates_lib.values.engines import engines_at


@dataclass(frozen=True, slots=True)
class _Need:
    machine: LocalMachine
    component: Component
    weights: str
    engine: str
    rows: tuple[int, ...]
    subject: ProfileSubject


def with_known_encoders(world: World, home: Path) -> World:
    """`world` with the encoders that were measured before; what was not is estimated. `home`: of all profiles."""
    store = EncoderProfiles(home / "encoders")
    return _with_profiles(world, [store.get(need.subject.fingerprint) for need in _needs(world)])


def measure_encoders(world: World, home: Path, work: Path, progress: Progress, now: str, *, again: bool) -> None:
    """Measure those that are missing, or with `again` all. Raises as `sweep_encoders`."""
    store = EncoderProfiles(home / "encoders")
    needs = [need for need in _needs(world) if again or store.get(need.subject.fingerprint) is None]
    jobs = [EncoderJob(n.machine.kind, n.engine, n.weights, n.component.name, PROCESSOR_DTYPE, n.rows) for n in needs]
    for need, times in zip(needs, sweep_encoders(jobs, work, progress), strict=True):
        about = need.subject.fingerprint, now, need.subject.machine, component_key(need.component), need.machine.name
        store.put(ComponentProfile(*about, times))


def are_measured(world: World, home: Path) -> bool:
    store = EncoderProfiles(home / "encoders")
    return all(store.get(need.subject.fingerprint) for need in _needs(world))


def _with_profiles(world: World, found: list[ComponentProfile | None]) -> World:
    profiles = tuple(each for each in found if each is not None)
    if not profiles:
        return world
    return replace(world, graphs=tuple(replace(recipe, profiles=profiles) for recipe in world.graphs))


def _needs(world: World) -> Iterator[_Need]:
    """Yield what has to be measured, what is the same of two apps once."""
    found: dict[str, _Need] = {}
    for published in world.fleet.graph_apps:
        run = world.fleet.app_runs.get(published.name)
        if run is None or published.engine not in engines_at(LOCAL):
            continue
        app = app_of(published)
        for component in app.graph.components:
            rows = _sizes(app, component)
            for machine in world.fleet.machines if rows else ():
                of = f"{component_key(component)} of {', '.join(map(str, rows))} rows"
                subject = part_subject(machine, published.engine, of, published.revision, PROCESSOR_DTYPE)
                need = _Need(machine, component, run.weights, published.engine, rows, subject)
                found.setdefault(subject.fingerprint, need)
    yield from found.values()


def _sizes(app: GraphApp, component: Component) -> tuple[int, ...]:
    """Rows of the pictures or clips to be measured: the mean ones of each type, and a quarter of them, as longer ones
    take more for a row. None of a component that is no encoder, or that no request visits."""
    if component.kind is not ComponentKind.ENCODER:
        return ()
    works = [kind.work[component.name] for kind in app.types if component.name in kind.components]
    means = {max(1, math.ceil(work.units / max(work.items, 1e-9))) for work in works}
    return tuple(sorted(means | {max(1, mean // 4) for mean in means if not component.padded_units}))
