"""Compare what is on record with what the clouds list, and mend what a crash, a lost reply or a preemption left.

Every node of ours that exists ends up on record as rented, or terminated; every open intent is settled; every node on
record that does not exist is recorded as gone. It may be run at any time, beside calls that are being made, by any
process, as often as one likes: what has nothing to mend changes nothing.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from control.cloud.errors import CloudError
from control.cloud.node import CloudNode, CloudNodeState
from control.cloud.port import LogReader
from control.db.errors import NotWantedError
from control.db.instances import PostgresInstances
from control.db.nodes import PostgresNodes
from control.executor.bill_tags import bill_of
from control.executor.nodes import OWNER_TAG, NodeExecutor
from control.executor.profile_tag import is_measured
from control.lifecycle.event import Event, EventKind
from control.lifecycle.held_node import HeldNode
from control.lifecycle.intent import Intent, IntentKind
from control.lifecycle.state import InstanceState
from control.printable import printable

_AT_ONCE = 8
"""Logs read side by side."""
_UNDER_WAY = (CloudNodeState.QUEUED, CloudNodeState.STARTING)
"""Of nodes whose launch goes on, whoever asked for it: it is neither given up nor taken for done."""
LISTED_WITHIN = timedelta(minutes=2)
"""No cloud takes longer to list what it has created."""


@dataclass(slots=True)
class Recovered:
    """Names of nodes."""

    adopted: list[str] = field(default_factory=list)
    """Rented by a call whose outcome had not been recorded."""
    abandoned: list[str] = field(default_factory=list)
    """Asked for by such a call, and not there."""
    ended: list[str] = field(default_factory=list)
    """Terminated, as was intended."""
    orphans: list[str] = field(default_factory=list)
    """Existed though no row wanted them; terminated."""
    queued: list[str] = field(default_factory=list)
    """Their launches wait for their turn."""
    lost: list[str] = field(default_factory=list)
    """Nodes on record that are not there any more, or are broken and given back. Their instances fail, unless they
    still rent."""
    failed: dict[str, str] = field(default_factory=dict)
    """Failures by cloud, or by node that may still be billed: why it could not be mended. The next run tries again."""


def recover(
    instances: PostgresInstances, held_nodes: PostgresNodes, executor: NodeExecutor, in_flight: timedelta
) -> Recovered:
    """Mend what differs between rows and clouds, and return what was done. A call that began less than `in_flight` ago
    may be under way in another thread: it is left alone, and so is a node that has existed for less than that, or
    `LISTED_WITHIN`, and is not listed. Zero is right for a process that has just started, alone, on a cloud whose list
    is up to date."""
    recovered = Recovered()
    for name in executor.clouds:
        try:
            _recover_cloud(name, instances, held_nodes, executor, in_flight, recovered)
        except CloudError as error:
            recovered.failed[name] = str(error)
    return recovered


def _recover_cloud(
    cloud: str,
    instances: PostgresInstances,
    held_nodes: PostgresNodes,
    executor: NodeExecutor,
    in_flight: timedelta,
    recovered: Recovered,
) -> None:
    # Read before and after the list: what is lost was on record before it, what is an orphan is not on record after.
    before = held_nodes.held(cloud)
    now = executor.clock()
    listed = _listed(cloud, executor)
    recovered.queued += [name for name, node in listed.items() if node.state is CloudNodeState.QUEUED]
    settled_before = now - in_flight
    for intent in executor.intents.open(cloud):
        if datetime.fromisoformat(intent.attempted_at) <= settled_before:
            _settle(intent, listed, executor, recovered)
    wanted = held_nodes.held(cloud)
    if unwanted := listed.keys() - wanted.keys():
        # Some may have been terminated since: look again before breaking anything.
        for name in sorted(unwanted & _listed(cloud, executor).keys()):
            if listed[name].state is not CloudNodeState.QUEUED:
                executor.intents.leaked(name, cloud, *bill_of(listed[name].tags), executor.clock())
            if _give_back(name, cloud, executor, recovered):
                recovered.orphans.append(name)
    _fail_those_that_do_not_come_up(cloud, before, listed, instances, executor)
    for node in before.values():
        if node.created_at is None:  # nobody knows that it exists: its intent is settled instead
            continue
        if node.name not in listed:
            if node.created_at <= now - min(in_flight, LISTED_WITHIN):
                _lose(node, instances, held_nodes, executor, recovered)
        elif listed[node.name].state is CloudNodeState.BROKEN and node.name in wanted:
            _replace(node, instances, executor, recovered)


def _fail_those_that_do_not_come_up(
    cloud: str,
    held: Mapping[str, HeldNode],
    listed: Mapping[str, CloudNode],
    instances: PostgresInstances,
    executor: NodeExecutor,
) -> None:
    """A node that will not register costs money for as long as it is waited for: its log may say so much sooner."""
    adapter = executor.cloud(cloud)
    if not isinstance(adapter, LogReader):
        return
    waited_for = {each.id for each in instances.living() if each.state == InstanceState.BOOTSTRAPPING}
    asked = [
        node
        for node in held.values()
        if node.instance_id in waited_for and node.name in listed and listed[node.name].state is CloudNodeState.RUNNING
    ]

    def look(node: HeldNode) -> str:
        try:
            return adapter.failure(node.name, executor.clock())
        except CloudError:  # nothing is known, and the next look may say more
            return ""

    if not asked:
        return
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for node, why in zip(asked, pool.map(look, asked), strict=True):
            if why:
                event = Event(EventKind.BROKE, f"{node.name} does not come up: {printable(why)}")
                instances.apply(node.instance_id, event, executor.clock())


def _listed(cloud: str, executor: NodeExecutor) -> dict[str, CloudNode]:
    """List our nodes by name, but for those that `medley profile run` measures, as long as it may."""
    now = executor.clock()
    listed = executor.cloud(cloud).list({OWNER_TAG: executor.owner}, now)
    return {node.name: node for node in listed if not is_measured(node.tags, now)}


def _settle(intent: Intent, listed: Mapping[str, CloudNode], executor: NodeExecutor, recovered: Recovered) -> None:
    now = executor.clock()
    if intent.kind is IntentKind.TERMINATE:
        if _give_back(intent.node, intent.cloud, executor, recovered):
            recovered.ended.append(intent.node)
    elif (node := listed.get(intent.node)) is None:
        executor.intents.abandoned(intent.node, now)
        recovered.abandoned.append(intent.node)
    elif node.state not in _UNDER_WAY:
        try:
            executor.intents.created(node.name, node.provider_id, now)
        except NotWantedError:
            return  # given up meanwhile: it is among the orphans
        recovered.adopted.append(node.name)


def _give_back(name: str, cloud: str, executor: NodeExecutor, recovered: Recovered) -> bool:
    try:
        gone = executor.give_back(name, cloud)
    except CloudError as error:
        recovered.failed[name] = str(error)
        return False
    if not gone:
        recovered.failed[name] = "the cloud still lists it"
    return gone


def _lose(
    node: HeldNode,
    instances: PostgresInstances,
    held_nodes: PostgresNodes,
    executor: NodeExecutor,
    recovered: Recovered,
) -> None:
    # The instance first: were the node's end written and then the process killed, nobody would fail the instance.
    event = Event(EventKind.NODE_LOST, f"the cloud does not list {node.name} any more")
    instances.apply(node.instance_id, event, executor.clock())
    if held_nodes.lost(node.name, "not in the cloud's list", executor.clock()):
        recovered.lost.append(node.name)


def _replace(node: HeldNode, instances: PostgresInstances, executor: NodeExecutor, recovered: Recovered) -> None:
    """A broken node serves nobody and costs money. Its place is free afterwards, for an instance that still rents."""
    event = Event(EventKind.NODE_LOST, f"what ran on {node.name} has ended")
    instances.apply(node.instance_id, event, executor.clock())
    if _give_back(node.name, node.cloud, executor, recovered):
        recovered.lost.append(node.name)
