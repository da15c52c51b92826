"""Measured profiles for the nodes of this machine that a fleet may use."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from control.cloud.local.kinds import LocalMachine
from control.planning.component_profiles import are_measured, measure_components, with_known_components
from control.planning.local_market import local_config, local_gpu
from control.planning.rented_profiles import known_rented
from control.planning.world import World
from control.profiles.fitting import fit_rows
from control.profiles.local_sweep import LocalSweep, sweep
from control.profiles.measurement_jobs import SweepError
from control.profiles.store import FORMAT, ProfileStore, StoredProfile
from control.profiles.subject import ProfileSubject, local_subject
from templates_lib.models.model_spec import ModelSpec
from templates_lib.ports.source import Progress
from templates_lib.values.clouds import LOCAL
from templates_lib.values.engines import engines_at
from templates_lib.values.node_profile import NodeProfile


@dataclass(frozen=True, slots=True)
class _Need:
    machine: LocalMachine
    model: ModelSpec
    subject: ProfileSubject


def profile_store(home: Path) -> ProfileStore:
    """Return the store of the Medley whose folder is `home`."""
    return ProfileStore(_folder(home))


def _folder(home: Path) -> Path:
    return home / "profiles"


def with_known_profiles(world: World, home: Path) -> World:
    """`world` with the profiles that were measured before, of nodes of this machine and of rented ones; what has none
    is estimated."""
    store = profile_store(home)
    stored = [store.get(need.subject.fingerprint) for need in _needs(world)]
    local = tuple(one.profile for one in stored if one is not None)
    rented = known_rented(store, world.recipe.served, {node.id for node in world.recipe.nodes})
    known = replace(world, recipe=replace(world.recipe, profiles=(*local, *rented)))
    return with_known_components(known, _folder(home))


def ensure_profiles(world: World, home: Path, progress: Progress, now: str, *, again: bool = False) -> World:
    """`world` with profiles of all its local nodes: those that are missing, or with `again` all, are measured.

    `now`: ISO 8601, UTC. Raises SweepError for a node that cannot be measured, or a model whose weights
    are not known; NoEngineError and NoWeightsError for what is not on this machine.
    """
    store = profile_store(home)
    needs = tuple(_needs(world))
    is_known = all(store.get(need.subject.fingerprint) for need in needs) and are_measured(world, _folder(home))
    if is_known and not again:
        return with_known_profiles(world, home)
    with store.measuring() as work:
        missing = [need for need in needs if again or store.get(need.subject.fingerprint) is None]
        for model, engine in {(n.model.id, n.subject.engine): (n.model, n.subject.engine) for n in missing}.values():
            these = [need for need in missing if (need.model.id, need.subject.engine) == (model.id, engine)]
            kinds, weights = [need.machine.kind for need in these], _weights(world, model.id)
            swept = sweep(kinds, model, engine, weights, work, progress)
            for need in these:
                store.put(_fitted(need, swept, now))
        measure_components(world, _folder(home), work, progress, now, again=again)
    return with_known_profiles(world, home)


def refit(stored: StoredProfile) -> StoredProfile:
    """Fit what was measured again. Raises SweepError."""
    terms, errors = fit_rows(stored.profile.config, stored.rows)
    return replace(stored, profile=replace(stored.profile, step_terms_s=terms, errors=errors))


def _needs(world: World) -> Iterator[_Need]:
    """Yield what has to be measured; what is the same for two served models is needed once."""
    found: dict[str, _Need] = {}
    for served in (each for whole in world.recipe.served for each in whole.by_engine()):
        for machine in world.fleet.machines if served.engine in engines_at(LOCAL) else ():
            subject = local_subject(machine, served.model, served.engine)
            found.setdefault(f"{subject.fingerprint}/{machine.name}", _Need(machine, served.model, subject))
    yield from found.values()


def _weights(world: World, model: str) -> str:
    if model not in world.weights:
        raise SweepError(f"{model}: it is not known where its weights are, so it cannot be profiled: set `weights`")
    return world.weights[model]


def _fitted(need: _Need, swept: LocalSweep, now: str) -> StoredProfile:
    rows = swept.rows[need.machine.name]
    terms, errors = fit_rows(need.machine.name, rows)
    profile = NodeProfile(
        subject=need.subject.fingerprint,
        measured_at=now,
        machine=need.subject.machine,
        engine=need.subject.engine,
        model=need.model.id,
        dtype=need.model.dtype,
        config=local_config(need.machine).id,
        cpu_cores=need.machine.cpu_cores,
        step_terms_s=terms,
        errors=errors,
        pipeline=swept.pipeline,
        hand_off=swept.hand_off[need.machine.name],
    )
    return StoredProfile(FORMAT, local_gpu(need.machine), local_config(need.machine), profile, rows)
