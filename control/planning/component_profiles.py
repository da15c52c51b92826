"""Measured encoders and generators of a fleet's apps, on the nodes of this machine that it may use."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from control.cloud.local.kinds import LocalMachine
from control.planning.world import World
from control.profiles.component_sweep import ComponentJob, KeptComponentProfiles, sweep_components
from control.profiles.subject import ProfileSubject, part_subject
from templates_lib.apps.graph_app import app_of
from templates_lib.cost.measured_component import component_key
from templates_lib.graphs.component import Component, ComponentKind, ComponentWork, Modality
from templates_lib.ports.source import Progress
from templates_lib.sources.graph_source import PROCESSOR_DTYPE
from templates_lib.values.clouds import LOCAL
from templates_lib.values.component_profile import ComponentProfile
from templates_lib.values.engines import engines_at

_SPOKEN_S = 6.0
"""Seconds of speech, at most, that are made for a measurement: it is made sentence by sentence, and longer answers take
as long for each."""


@dataclass(frozen=True, slots=True)
class _Need:
    machine: LocalMachine
    component: Component
    weights: str
    engine: str
    sizes: tuple[int, ...]
    item_rows: float
    subject: ProfileSubject


def with_known_components(world: World, home: Path) -> World:
    """`world` with the components that were measured before; what was not is estimated. `home`: of all profiles."""
    store = _store(home)
    return _with_profiles(world, [store.get(need.subject.fingerprint) for need in _needs(world)])


def measure_components(world: World, home: Path, work: Path, progress: Progress, now: str, *, again: bool) -> None:
    """Measure those that are missing, or with `again` all. Raises as `sweep_components`."""
    store = _store(home)
    needs = [need for need in _needs(world) if again or store.get(need.subject.fingerprint) is None]
    jobs = [
        ComponentJob(n.machine.kind, n.engine, n.weights, n.component.name, PROCESSOR_DTYPE, n.sizes, n.item_rows)
        for n in needs
    ]
    for need, times in zip(needs, sweep_components(jobs, work, progress), strict=True):
        about = need.subject.fingerprint, now, need.subject.machine, component_key(need.component), need.machine.name
        store.put(ComponentProfile(*about, times))


def are_measured(world: World, home: Path) -> bool:
    store = _store(home)
    return all(store.get(need.subject.fingerprint) for need in _needs(world))


def _store(home: Path) -> KeptComponentProfiles:
    return KeptComponentProfiles(home / "components")


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
            works = [kind.work[component.name] for kind in app.types if component.name in kind.components]
            sizes = _sizes(component, works)
            for machine in world.fleet.machines if sizes else ():
                of = f"{component_key(component)} of {', '.join(map(str, sizes))} rows"
                item_rows = max(work.item_rows for work in works)
                if component.kind is ComponentKind.GENERATOR:  # Kokoro computes in the numbers of its file
                    of += f", {item_rows:g} a picture, from {run.weights}"
                subject = part_subject(machine, published.engine, of, published.revision, PROCESSOR_DTYPE)
                need = _Need(machine, component, run.weights, published.engine, sizes, item_rows, subject)
                found.setdefault(subject.fingerprint, need)
    yield from found.values()


def _sizes(component: Component, works: Sequence[ComponentWork]) -> tuple[int, ...]:
    """Sizes of the units to be measured: the mean ones of each type, and a quarter of them, as longer ones may take
    more for a row. None of a decoder, or of a component that no request visits."""
    if component.kind is ComponentKind.DECODER:
        return ()
    most = _SPOKEN_S if component.answers is Modality.AUDIO else math.inf
    means = {max(1, math.ceil(min(work.units / max(work.items, 1e-9), most))) for work in works}
    return tuple(sorted(means | {max(1, mean // 4) for mean in means if not component.padded_units}))
