"""Create a fleet, or change what its owner asks for."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from control.actions.context import ActionContext
from control.actions.decide_plan import accept_solved
from control.actions.lost_traffic import refuse_loss
from control.actions.projects import check_project
from control.actions.refusal import FailsPreflightError, NotNowError
from control.actions.taken_names import refuse_taken
from control.db.errors import InUseError, StaleVersionError
from control.db.fleets import PostgresFleets
from control.db.registered_models import PostgresModels
from control.given_name import DEFAULT_PROJECT
from control.lifecycle.fleet import FleetMode, FleetRecord
from control.planning.world import World
from control.preflight.finding import Finding, failing
from control.preflight.models import of_wanted
from control.reconcile.fleet_world import world_of_record


@dataclass(frozen=True, slots=True)
class WantedFleet:
    """A fleet as its owner asks for it. `mode` and `project` None: as they are; observe and the default project if it
    is new."""

    world: World
    """Of its spec, which was checked."""
    spec: str
    folder: str
    """Where relative paths of the spec begin; empty: it has none."""
    mode: FleetMode | None = None
    project: str | None = None

    def record(self, before: FleetRecord | None, now: datetime) -> FleetRecord:
        """The fleet as it will be stored."""
        name = self.world.name
        before = before or FleetRecord(name, DEFAULT_PROJECT, "", "", FleetMode.OBSERVE, 0, False, "")
        mode, project = self.mode or before.mode, self.project or before.project
        return FleetRecord(name, project, self.spec, self.folder, mode, before.version, False, now.isoformat())

    @property
    def models(self) -> frozenset[str]:
        """The names of what serves its apps, as instances have them."""
        return _models(self.world)


def apply_spec(
    act: ActionContext,
    wanted: WantedFleet,
    before: FleetRecord | None,
    confirmed: Collection[str] | None = (),
    plan: str = "",
    *,
    preflight: bool = True,
) -> FleetRecord:
    """Store what is asked for; the next solve is made from it, and a fleet that was ending stays.

    `before` is the fleet as it was read; None: there is to be none. `confirmed` names models that serve and may be
    drained; None: all. `plan` was made for exactly this and is accepted with it, unless the fleet only observes.
    `preflight`: look at where the weights are, if it is to act; with a plan `refuse_failing` sees more.

    Raises InUseError for a new fleet of a name that is taken; WrongFieldError for a project that is unknown;
    LosesTrafficError; StaleVersionError; NotNowError for a fleet that is to act and whose models nodes cannot start or
    another fleet serves by the same name, FailsPreflightError for one whose weights they could not fetch.
    """
    record = wanted.record(before, act.now)
    name, mode = record.name, record.mode
    _check_startable(wanted.world, mode)
    if preflight and mode is not FleetMode.OBSERVE:  # before the transaction: it asks the hub
        refuse_failing(name, mode, of_wanted(wanted.world))
    with act.as_one() as one:
        fleets = PostgresFleets(one.database)
        check_project(one.database, record.project)
        if mode is not FleetMode.OBSERVE:
            refuse_taken(one.database, name, wanted.models)
        if before is None:
            try:
                made = fleets.create(name, record.spec, act.now, record.folder, record.project, mode)
            except StaleVersionError as error:
                raise InUseError(str(error)) from None
            one.record("fleet.created", f"created fleet {name} in mode {mode}", name, name)
        else:
            refuse_loss(one.database, name, wanted.models, confirmed)
            changes = {"spec": record.spec, "folder": record.folder, "project": record.project}
            made = fleets.change(name, before.version, act.now, **changes, mode=mode, ending=False)
            one.record("fleet.changed", f"changed fleet {name} to version {made.version}, mode {mode}", name, name)
        if plan and mode is not FleetMode.OBSERVE:
            accept_solved(one, name, plan)
        return made


def set_mode(act: ActionContext, fleet: str, mode: FleetMode, *, preflight: bool = True) -> FleetRecord:
    """Say how far the control plane may go. Raises NotStoredError; NotNowError and FailsPreflightError as `apply_spec`;
    SpecError for one that is to act and whose spec cannot be read any more; StaleVersionError when somebody changes it
    at the same time."""
    record = PostgresFleets(act.database).load(fleet)
    if mode is not FleetMode.OBSERVE:
        world = world_of_record(record, PostgresModels(act.database).own())
        _check_startable(world, mode)
        if preflight:
            refuse_failing(fleet, mode, of_wanted(world))
        refuse_taken(act.database, fleet, _models(world))
    with act.as_one() as one:
        changed = PostgresFleets(one.database).change(fleet, record.version, act.now, mode=mode)
        one.record("fleet.changed", f"set mode {mode.value}", fleet, fleet)
        return changed


def refuse_failing(fleet: str, mode: FleetMode, found: Iterable[Finding]) -> None:
    """Raises FailsPreflightError when anything of `found` fails."""
    listed = tuple(found)
    if failing(listed):
        raise FailsPreflightError(fleet, mode.value, listed)


def _check_startable(world: World, mode: FleetMode) -> None:
    """Nothing of a fleet that observes is started, so it may be planned with any engine."""
    if mode is not FleetMode.OBSERVE and (reasons := world.never_started):
        raise NotNowError(
            f"fleet {world.name!r} cannot be started: {'; '.join(reasons)}; mode observe only looks at it"
        )


def _models(world: World) -> frozenset[str]:
    return frozenset(share.app for app in world.fleet.every_app for share in app.shares)
