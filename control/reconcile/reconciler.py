"""The reconcile loop: lead, read what fleets are wanted, plan what is due, hold each to its plan, keep it so."""

import logging
import math
import queue
from dataclasses import replace
from datetime import datetime
from functools import partial

from control.cloud.errors import CloudError
from control.db.budgets import Scope, StoredBudget
from control.db.errors import DatabaseUnavailableError, StaleVersionError
from control.demand.heard_load import HeardLoad
from control.fleet.order import FleetOrder
from control.fleet.pools import BURST_EVENT
from control.fleet.publisher import unasked
from control.lifecycle.fleet import FleetMode, FleetRecord, FleetTarget
from control.lifecycle.fleet_event import RECONCILER, FleetEvent
from control.lifecycle.history import PastTransition
from control.reconcile.decision import Verdict, decide
from control.reconcile.fleet_planner import Solved
from control.reconcile.fleet_state import FleetState
from control.reconcile.ordering import fleet_order, routing
from control.reconcile.reconcile_ports import ReconcilePorts
from control.reconcile.tokenizers import AwaitedError
from templates_lib.values.instance import Instance
from templates_lib.values.offer import Offer
from templates_lib.values.plan import Plan

_log = logging.getLogger(__name__)

_UNASKED = "cannot be asked"
_LOOK_S = 10.0
"""Between two looks for bursts: as long as gateways' reports of late cover."""


class Reconciler:
    """Every method is called from one thread at a time, but `is_settled` and `trouble`, which tell of the end of the
    last round: amid one a plan may have been taken that nothing was ordered of yet."""

    def __init__(self, ports: ReconcilePorts) -> None:
        self._ports = ports
        self._fleets: dict[str, FleetState] = {}
        self._budgets: dict[tuple[Scope, str], StoredBudget] = {}
        self._solved: queue.SimpleQueue[tuple[str, Solved | Exception, tuple[str, ...]]] = queue.SimpleQueue()
        """Fleet, its plan or why there is none, and what would fail of the plan's launch."""
        self._faults: dict[str, str] = {}
        """Cloud → fault of our own that stops launches there."""
        self._leads = self._has_read = False
        self._after: tuple[bool, dict[str, str]] = False, {}
        """Whether all was settled at the end of the last round, and the troubles then."""
        ports.keeper.observer = self

    def load(self) -> bool:
        """Return whether this process leads; then mend what an earlier one left, and take each fleet's plan in force.
        Call it before the hub listens. Raises DatabaseUnavailableError."""
        if not self._lead():
            return False
        self._read()
        self._carry_out()
        self._after = self._looked_at()
        return True

    def tick(self) -> None:
        """One round. While the database is away, or somebody else leads, nothing is decided; what serves goes on."""
        self._round()
        self._after = self._looked_at()

    def _round(self) -> None:
        try:
            if not self._lead():
                return
            self._read()
            self._look_for_bursts()
            self._plan()
            self._decide()
            self._carry_out()
        except DatabaseUnavailableError as error:
            _log.warning("%s", error)
        if self._has_read:  # else it would not know that anything is wanted
            self._ports.keeper.tick()

    @property
    def leads(self) -> bool:
        return self._leads

    @property
    def heard(self) -> HeardLoad:
        """What gateways said of the last seconds: for whoever hears them to write to."""
        return self._ports.stores.bursts.heard

    def due_s(self) -> float:
        """Monotonic time at which a fleet is to be planned next; inf: none is on record."""
        return min((fleet.due_s for fleet in self._fleets.values()), default=math.inf)

    def is_deposed(self) -> bool:
        """Tell whether it has led, and another process does now."""
        return self._has_read and self._ports.leader.is_lost

    def trouble(self) -> dict[str, str]:
        """Fleet → why it cannot be planned, run or asked now, of those that cannot."""
        return self._after[1]

    def is_settled(self) -> bool:
        """Tell whether every fleet was planned since the loop began, and is as its plan wants it, or cannot be."""
        return self._after[0]

    def _looked_at(self) -> tuple[bool, dict[str, str]]:
        unreached = {name: unasked(taken) for name, taken in self._ports.publisher.taken().items()}
        troubles = {name: fleet.trouble for name, fleet in self._fleets.items() if fleet.trouble}
        return self._leads and self._is_as_wanted(), unreached | troubles

    def _is_as_wanted(self) -> bool:
        fleets = self._fleets.values()
        planned = all((f.solved or f.trouble) and f.wanted_s > self._ports.monotonic() for f in fleets)
        planned &= all(f.to_publish is None or f.trouble for f in fleets)
        return bool(planned) and self._solved.empty() and self._ports.keeper.is_settled()

    def on_transition(self, fleet: str, step: PastTransition) -> None:
        self._ports.on_transition(fleet, step)

    def refused(self, fleet: str, offer: Offer, error: CloudError) -> None:
        """A cloud did not give a node: the next plan is made at once, and knows it."""
        self._ports.planner.market.refused(offer, error, self._now())
        self._miss(fleet, offer)
        self._note("offer.refused", f"{type(error).__name__}: {error}", fleet, offer.key)
        self.wake(fleet, f"{offer.key} was refused")

    def rented(self, fleet: str, offer: Offer) -> None:
        """A cloud gave a node. Where the plan counted on no more of that offer, it may count on more now: at once, or a
        market that comes back would be asked for a few nodes more with every plan, and dearer ones kept as long."""
        self._ports.planner.market.rented(offer, self._now())
        known = self._fleets.get(fleet)
        if known is None:
            return
        known.missed.discard(offer.key)
        if known.solved is not None and known.solved.uses_up(offer):
            self.wake(fleet, f"{offer.key} gave all that was asked of it")

    def faulty(self, cloud: str, why: str) -> None:
        """A fault of our own stops launches at a cloud: no plan changes for it, and it is said of the fleets that are
        to launch there."""
        if why and why != self._faults.get(cloud):
            _log.error("launches at %s are stopped: %s", cloud, why)
            self._note("launches.stopped", why, subject=cloud)
        elif not why and cloud in self._faults:
            self._note("launches.resumed", f"launches at {cloud} go on", subject=cloud)
        self._faults = {name: known for name, known in self._faults.items() if name != cloud}
        if why:
            self._faults[cloud] = why

    def taken(self, fleet: str, offer: Offer, reason: str) -> None:
        """A node will be taken back: what it serves is drained, and the next plan looks elsewhere."""
        self._ports.planner.market.taken(offer, reason, self._now())
        self._miss(fleet, offer)
        self._note("offer.taken", reason, fleet, offer.key)
        self.wake(fleet, f"a node of {offer.key} will be taken")

    def wake(self, fleet: str, why: str) -> None:
        """Plan it as soon as may be."""
        if (known := self._fleets.get(fleet)) is not None:
            known.wake(self._ports.monotonic(), why)

    def _miss(self, fleet: str, offer: Offer) -> None:
        if (known := self._fleets.get(fleet)) is not None:
            known.missed.add(offer.key)

    def _lead(self) -> bool:
        led, self._leads = self._leads, False
        self._leads = self._ports.leader.lead(self._now())
        if self._leads and not led:
            self._note("leader.leads", f"epoch {self._ports.leader.epoch}")
            if not self._has_read:
                self._ports.keeper.load()
        return self._leads

    def _read(self) -> None:
        """Read which fleets there are, which plan is in force for each, and what it may spend."""
        fleets = self._ports.stores.fleets
        names, changed = fleets.news(fleet.record for fleet in self._fleets.values())
        for name in ({i.fleet for i in self._ports.keeper.known} | set(self._fleets)) - names:
            self._fleets.pop(name, None)
            self._ports.keeper.forget(name)
            self._ports.publisher.drop(name)
        targets = fleets.targets()
        for record in changed:
            if (known := self._fleets.get(record.name)) is None:
                target = targets.get(record.name, FleetTarget(record.name))
                self._fleets[record.name] = FleetState(record, target, self._ports.monotonic())
            else:
                known.record = record
                self.wake(record.name, "its spec or mode has changed")
        for name, fleet in tuple(self._fleets.items()):
            fleet.target = targets.get(name, fleet.target)
            if fleet.record.ending:
                self._end(name)
        self._read_budgets()

    def _read_budgets(self) -> None:
        """A fleet whose budget, or whose project's, is another one now is planned again."""
        found = {(each.scope, each.name): each for each in self._ports.stores.budgets.all()}
        before, self._budgets = self._budgets, found
        changed = {key for key in found.keys() | before.keys() if found.get(key) != before.get(key)}
        for name, fleet in self._fleets.items() if changed else ():
            if changed & {(Scope.FLEET, name), (Scope.PROJECT, fleet.record.project)}:
                self.wake(name, "its budget has changed")

    def _end(self, name: str) -> None:
        self._ports.keeper.forget(name)
        self._ports.publisher.drop(name)
        if not any(instance.fleet == name for instance in self._ports.keeper.known):
            self._ports.stores.fleets.remove(name)
            self._note("fleet.ended", "nothing of it runs any more", name)

    def _look_for_bursts(self) -> None:
        """Plan fleets now whose apps are asked for more than their plans have."""
        now_s = self._ports.monotonic()
        for name, fleet in self._fleets.items():
            solved = fleet.solved
            if solved is None or solved.world.fleet.bursts is None or now_s < fleet.looked_s + _LOOK_S:
                continue
            fleet.looked_s = now_s
            is_in_force = solved.plan.id == fleet.target.accepted
            plan = solved.plan if is_in_force else self._kept(fleet.target.accepted)
            if plan is None:
                continue
            own = tuple(each for each in self._ports.keeper.known if each.fleet == name)
            for why in self._ports.stores.bursts.look(solved.world, plan, self._now(), own):
                self._note(BURST_EVENT, why, name)
                self.wake(name, why)

    def _plan(self) -> None:
        """Start the solves that are due, one at a time for a fleet."""
        now_s = self._ports.monotonic()
        for name, fleet in self._fleets.items():
            if fleet.record.ending or now_s < fleet.due_s:
                continue
            record, known, held = fleet.record, self._ports.keeper.known, fleet.target.accepted
            if self._ports.effects.begin(f"plan {name}", partial(self._solve, record, known, held)):
                _log.info("fleet %s is planned: %s", name, fleet.why)
                fleet.begin(now_s)

    def _solve(self, record: FleetRecord, known: tuple[Instance, ...], in_force: str) -> None:
        """Solve in a thread of the effects. What nobody is asked about is looked at before it is carried out."""
        try:
            solved = self._ports.planner.solve(record, known, self._now(), in_force=in_force)
            fails = self._ports.preflight(solved.world, solved.plan) if record.mode is FleetMode.AUTO else ()
            self._solved.put((record.name, solved, fails))
        except Exception as error:
            self._solved.put((record.name, error, ()))
            if not isinstance(error, (ValueError, LookupError, DatabaseUnavailableError)):
                raise

    def _decide(self) -> None:
        """Decide about the plans that have been made since."""
        while not self._solved.empty():
            name, solved, fails = self._solved.get()
            fleet = self._fleets.get(name)
            if fleet is None:
                continue
            try:
                self._take(name, fleet, solved, fails)
            except StaleVersionError:
                self.wake(name, "somebody has accepted another plan meanwhile")
            except DatabaseUnavailableError:
                self.wake(name, "the database went away meanwhile")  # it is not to wait for its next turn
                raise

    def _take(self, name: str, fleet: FleetState, solved: Solved | Exception, fails: tuple[str, ...]) -> None:
        """Raises StaleVersionError, DatabaseUnavailableError."""
        if isinstance(solved, DatabaseUnavailableError):
            raise solved
        if isinstance(solved, Exception):
            self._trouble(fleet, f"cannot be planned: {solved}")
            return
        fleet.take(solved, self._now(), self._ports.monotonic())
        self._account(name, solved)
        if solved.record != fleet.record:
            self.wake(name, "its spec has changed meanwhile")
            fails = ()
        else:
            fails = self._judge(fleet, solved, fails)
        self._trouble(fleet, f"cannot be launched: {'; '.join(fails)}" if fails else "")

    def _account(self, name: str, solved: Solved) -> None:
        """Record what held nodes cost by this look at the market, what the fleet gives up for its budgets from now on,
        and how its certificates are corrected."""
        stores, now = self._ports.stores, self._now()
        stores.prices.observed({offer.key: offer.usd_per_hour for offer in solved.snapshot.offers}, now)
        if solved.taken.rung != (before := stores.budgets.given_up(name).rung):
            stores.budgets.give_up(name, solved.taken.rung, solved.taken.reasons, now)
            why = "; ".join(solved.taken.reasons) or "its budgets allow it again"
            self._note("budget.ladder", f"{before.text} -> {solved.taken.rung.text}: {why}", name)
        stores.corrections.put(name, {of: each for of, (_, each) in solved.corrections.items()})
        for of, (factor, each) in solved.corrections.items():
            text = f"{100 * factor:.3g} -> {100 * each.factor:.3g} % of its certified capacity: {each.reason}"
            _log.warning("fleet %s: %s: %s", name, of, text)
            self._note("promise.corrected", f"{of}: {text}", name, of)

    def _judge(self, fleet: FleetState, solved: Solved, fails: tuple[str, ...]) -> tuple[str, ...]:
        """Return what keeps the plan from being carried out."""
        fleets, now = self._ports.stores.fleets, self._now()
        mode, target = fleet.record.mode, fleet.target
        # A plan that was proposed before the spec or mode changed cannot be approved any more: propose the new one.
        is_current = target.proposed_at >= fleet.record.updated_at
        held, waiting = self._kept(target.accepted), self._kept(target.proposed if is_current else "")
        decision = decide(mode, target, held, waiting, solved.plan)
        if decision.verdict is Verdict.ACCEPT and fails:
            return fails
        if decision.verdict is Verdict.ACCEPT:
            fleet.target = fleets.accept(target, solved.plan.id, RECONCILER, decision.reason, now)
        elif decision.verdict is Verdict.PROPOSE:
            fleet.target = fleets.propose(target, solved.plan.id, now)
            self._note("plan.proposed", decision.reason, fleet.record.name, solved.plan.id)
        if solved.plan.id in (fleet.target.accepted, fleet.target.proposed):  # beside the loop, which does not wait
            self._ports.effects.begin(f"compare {solved.plan.id}", lambda: self._ports.planner.compare(solved))
        return ()

    def _carry_out(self) -> None:
        self._order()
        self._publish()
        self._say()
        self._has_read = True

    def _order(self) -> None:
        """Hold every fleet to its plan, on the newest look at the market."""
        for name, fleet in self._fleets.items():
            made_of = fleet.target.accepted, fleet.record.version, fleet.solves
            if fleet.record.ending or made_of == fleet.ordered:
                continue
            fleet.ordered = made_of
            try:
                self._hold(name, fleet)
            except (ValueError, LookupError) as error:
                self._trouble(fleet, f"cannot be run: {error}")

    def _hold(self, name: str, fleet: FleetState) -> None:
        """Raises ValueError, LookupError."""
        plan = self._kept(fleet.target.accepted)
        if plan is None:
            # Nothing was accepted: what runs (of a database that was restored, say) is left alone.
            self._ports.keeper.keep(FleetOrder(name, (), acts=False))
            return
        snapshot = fleet.solved.snapshot if fleet.solved else self._ports.stores.plans.snapshot(plan.snapshot_version)
        world = fleet.solved.world if fleet.solved else self._ports.planner.world(fleet.record)
        acts = fleet.record.mode is not FleetMode.OBSERVE
        if acts:
            self._ports.reach(world, plan)
        earlier = self._earlier(name, plan.id)
        starts = self._ports.overlaid if world.fleet.sources.reach.overlay else self._ports.starts
        self._ports.keeper.keep(fleet_order(world, plan, snapshot, earlier, starts, acts, self._ports.gang))
        fleet.to_publish = world, plan

    def _publish(self) -> None:
        """Tell gateways of what is held to: as soon as they can turn text into its tokens."""
        for name, fleet in self._fleets.items():
            if fleet.to_publish is None or fleet.record.ending:
                continue
            created = datetime.fromisoformat(fleet.target.accepted_at or fleet.record.updated_at)
            try:
                made = routing(*fleet.to_publish, created, self._ports.tokenizer)
            except AwaitedError:
                continue
            except (ValueError, LookupError) as error:
                self._trouble(fleet, f"{_UNASKED}: {error}")
                continue
            self._ports.publisher.serve(name, made)
            if made.unserved:  # tried again, as a whole fleet is: somebody may mend its weights
                self._trouble(fleet, f"{_UNASKED}: {'; '.join(made.unserved.values())}")
                continue
            fleet.to_publish = None
            if fleet.trouble.startswith(_UNASKED):
                self._trouble(fleet, "")

    def _say(self) -> None:
        """Put on record what keeps fleets from being planned, run or asked."""
        taken = self._ports.publisher.taken()
        for name, fleet in self._fleets.items():
            trouble = "; ".join(filter(None, (fleet.trouble, self._stopped(fleet), unasked(taken.get(name, {})))))
            if trouble != fleet.target.trouble and (fleet.solved or trouble):
                self._ports.stores.fleets.say(name, trouble)
                fleet.target = replace(fleet.target, trouble=trouble)

    def _stopped(self, fleet: FleetState) -> str:
        """Say which launches of a fleet a fault of our own stops; empty: none."""
        if fleet.solved is None or not self._faults:
            return ""
        clouds = {instance.zone.partition("/")[0] for instance in fleet.solved.plan.instances}
        return "; ".join(
            f"launches at {at} are stopped until it is mended: {self._faults[at]}"
            for at in sorted(clouds & self._faults.keys())
        )

    def _earlier(self, name: str, now: str) -> list[Plan]:
        found = (self._kept(plan) for plan in self._ports.stores.instances.plans_of_fleet(name) if plan != now)
        return [plan for plan in found if plan is not None]

    def _kept(self, plan: str) -> Plan | None:
        if not plan:
            return None
        try:
            return self._ports.stores.plans.load(plan)
        except LookupError:
            return None  # it was thrown away

    def _trouble(self, fleet: FleetState, text: str) -> None:
        if text and text != fleet.trouble:
            _log.error("fleet %s %s", fleet.record.name, text)
            self._note("fleet.trouble", text, fleet.record.name)
        fleet.trouble = text

    def _note(self, kind: str, text: str, fleet: str = "", subject: str = "") -> None:
        self._ports.stores.events.add([FleetEvent(RECONCILER, kind, text, fleet, subject)], self._now())

    def _now(self) -> datetime:
        return self._ports.clock()
