"""Measured profiles for the nodes of this machine that a fleet may use."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from control.cloud.local.kinds import LocalMachine
from control.planning.local_market import local_config
from control.planning.world import World, local_machines
from control.profiles.local_sweep import SweepError, sweep
from control.profiles.store import FORMAT, ProfileStore, StoredProfile
from control.profiles.subject import Subject, local_subject
from templates_lib.cost.fit import UnfittableError, fit_step_terms
from templates_lib.model_spec import ModelSpec
from templates_lib.models import weights_places
from templates_lib.node_profile import NodeProfile
from templates_lib.profile_row import ProfileRow
from templates_lib.source import Progress

MEASURED_ENGINE = "torch"


@dataclass(frozen=True, slots=True)
class _Need:
    machine: LocalMachine
    model: ModelSpec
    subject: Subject


def profile_store(home: Path) -> ProfileStore:
    """Of the Medley that keeps what is its own in `home`."""
    return ProfileStore(home / "profiles")


def with_known_profiles(world: World, home: Path) -> World:
    """`world` with the profiles that were measured before; what has none is estimated."""
    store = profile_store(home)
    stored = [store.get(need.subject.fingerprint) for need in _needs(world)]
    return _with(world, [one.profile for one in stored if one is not None])


def ensure_profiles(world: World, home: Path, progress: Progress, now: str, *, again: bool = False) -> World:
    """`world` with profiles of all its local nodes: those that are missing, or with `again` all, are measured.

    `now`: ISO 8601, UTC. Raises SweepError for a node that cannot be measured, or a model whose weights are not known.
    """
    store = profile_store(home)
    needs = tuple(_needs(world))
    if all(store.get(need.subject.fingerprint) for need in needs) and not again:
        return with_known_profiles(world, home)
    with store.measuring() as work:
        missing = [need for need in needs if again or store.get(need.subject.fingerprint) is None]
        for model in dict.fromkeys(need.model.id for need in missing):
            these = [need for need in missing if need.model.id == model]
            rows = sweep([need.machine.kind for need in these], _weights(model), these[0].model.dtype, work, progress)
            for need in these:
                store.put(_fitted(need, rows[need.machine.name], now))
    return with_known_profiles(world, home)


def _needs(world: World) -> Iterator[_Need]:
    """What is the same for two served models is needed once."""
    found: dict[str, _Need] = {}
    for served in world.recipe.served:
        for machine in local_machines(world.fleet) if served.engine == MEASURED_ENGINE else ():
            subject = local_subject(machine, served.model, served.engine)
            found.setdefault(f"{subject.fingerprint}/{machine.name}", _Need(machine, served.model, subject))
    yield from found.values()


def _weights(model: str) -> str:
    places = weights_places()
    if model not in places:
        raise SweepError(f"{model}: it is not known where its weights are, so it cannot be profiled")
    return places[model]


def _fitted(need: _Need, rows: tuple[ProfileRow, ...], now: str) -> StoredProfile:
    try:
        terms, errors = fit_step_terms(rows)
    except UnfittableError as error:
        raise SweepError(f"{need.machine.name}: {error}; run `medley profile run` again") from None
    profile = NodeProfile(
        subject=need.subject.fingerprint,
        measured_at=now,
        machine=need.subject.machine,
        engine=need.subject.engine,
        model=need.model.id,
        dtype=need.model.dtype,
        config=local_config(need.machine).id,
        step_terms_s=terms,
        errors=errors,
    )
    return StoredProfile(FORMAT, profile, rows)


def _with(world: World, profiles: list[NodeProfile]) -> World:
    return replace(world, recipe=replace(world.recipe, profiles=tuple(profiles)))
