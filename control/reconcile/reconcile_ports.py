"""Ports of the reconcile loop: all that it works with, as the daemon, `up`, the simulator and tests give it."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from control.db.leader import PostgresLeader
from control.executor.node_start import NodeStart
from control.fleet.effects import Effects
from control.fleet.keeper import Keeper
from control.fleet.publisher import RoutingSink
from control.hub.gang import Gang, gang_of
from control.lifecycle.history import PastTransition
from control.planning.world import World
from control.reconcile.fleet_planner import FleetPlanner
from control.reconcile.stores import ReconcileStores
from control.reconcile.tokenizers import tokenizer_here
from templates_lib.values.plan import Plan
from templates_lib.values.template import ServingTemplate


@dataclass(frozen=True, slots=True)
class ReconcilePorts:
    stores: ReconcileStores
    leader: PostgresLeader
    planner: FleetPlanner
    keeper: Keeper
    publisher: RoutingSink
    effects: Effects
    clock: Callable[[], datetime]
    monotonic: Callable[[], float] = time.monotonic
    on_transition: Callable[[str, PastTransition], None] = lambda _, __: None
    """Told of the fleet, and of a step in the life of an instance of it."""
    starts: Mapping[str, NodeStart] = field(default_factory=dict)
    """Cloud → what a new node of it runs."""
    overlaid: Mapping[str, NodeStart] = field(default_factory=dict)
    """The same of fleets whose nodes join the overlay network."""
    reach: Callable[[World, Plan], None] = lambda _, __: None
    """Makes sure of adapters for the clouds that a plan rents at. Raises ValueError for one that there is none for."""
    preflight: Callable[[World, Plan], tuple[str, ...]] = lambda _, __: ()
    """Looks at what a launch of a plan needs, and returns what would fail of it. May take seconds."""
    gang: Callable[[ServingTemplate], Gang] = gang_of
    """Function that makes the runs of a template's nodes. Raises UnplaceableError for a template that they cannot
    run."""
    tokenizer: Callable[[str], str] = tokenizer_here
    """Function from where weights are to where gateways find their tokenizer. Raises AwaitedError, NoWeightsError."""
