"""A sweep by rented nodes: rents them, reads what they print until they are done, and checks that they are whole."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

import msgspec

from agents.messages.to_profiler import MAX_LINES, Done, Failed, Machine, Measured, Meeting, said_in
from control.cloud.errors import CloudError, GiveUpError, QuotaError, RetryLaterError, StockOutError
from control.cloud.node import CloudNodeState, NodeRequest
from control.cloud.port import LogReader, PrintReader
from control.printable import printable
from control.profiles.measurement_jobs import SweepError
from control.profiles.rentals import Rental
from control.profiles.rented_nodes import LISTED_WITHIN, RentedNodes
from templates_lib.cost.hand_off_cost import HandOffCost
from templates_lib.cost.pipeline_cost import PipelineCost
from templates_lib.ports.source import Progress
from templates_lib.values.offer import Offer
from templates_lib.values.pair_cost import PairCost
from templates_lib.values.profile_row import Header, ProfileBlock, ProfileRow, rows_of

_Kind = TypeVar("_Kind")
_WHOLE = 2.0
"""Processors, as `rows_of` counts them: a rented node is its program's alone, and what counts is the clock."""


@dataclass(frozen=True, slots=True)
class NodeStory:
    """What a node has printed so far."""

    machine: Machine | None = None
    meeting: Meeting | None = None
    parts: Mapping[str, Sequence[bytes]] = field(default_factory=dict)
    """Part → its lines, the first its header."""
    failed: Failed | None = None
    is_done: bool = False

    @classmethod
    def of(cls, log: str) -> "NodeStory":
        """Read a log. A node that is done, but whose log lacks a line (it was cut off), is not done."""
        machine, meeting, failed, is_done = None, None, None, False
        parts: dict[str, list[bytes]] = {}
        for lines, said in enumerate(said_in(log)):
            match said:
                case Machine():
                    machine = said
                case Meeting():
                    meeting = said
                case Measured():
                    parts.setdefault(said.part, []).append(bytes(said.line))
                case Failed():
                    failed = said
                case Done():
                    is_done = said.lines == lines
        return cls(machine, meeting, parts, failed, is_done)

    @property
    def counts(self) -> tuple[int, int]:
        """Return how many lines have been measured, and how many there will be of the parts that have begun."""
        headers = [_decoded(lines[0], Header).lines for lines in self.parts.values()]
        return sum(len(lines) - 1 for lines in self.parts.values()), sum(headers)


@dataclass(frozen=True, slots=True)
class RentedSweep:
    offer: Offer
    """Offer of the node that was measured."""
    machine: Machine
    rows: tuple[ProfileRow, ...]
    hand_off: HandOffCost
    pipeline: PipelineCost
    pair: PairCost | None


@dataclass(frozen=True, slots=True)
class RentedJob:
    """What is measured, and what it takes."""

    request: Callable[[Offer, str], NodeRequest]
    """Makes the request of the node that is measured: of an offer, and a name."""
    helper: Callable[[Offer, str, Meeting], NodeRequest] | None
    """Makes that of the other node of a pair, where there is one; it is told where the first waits."""
    rental: Callable[[Offer, str], Rental]
    offers: tuple[Offer, ...]
    """Tried in their order until one is not refused."""
    name: str
    """Begins the names of its nodes."""
    until: datetime
    """When everything is to be measured."""
    differs: Callable[[Machine], str]
    """Says how a node differs from what is rented and measured; empty: it does not."""


def sweep_rented(job: RentedJob, nodes: RentedNodes, progress: Progress) -> RentedSweep:
    """Rent, measure, and return what was found; whoever calls gives the nodes back. Raises SweepError, CloudError."""
    cloud = nodes.cloud
    if not isinstance(cloud, PrintReader):
        raise SweepError(f"what nodes of {cloud.name} print cannot be read from here, so they cannot be measured")
    offer, first = _rented(job, nodes)
    helper, watch = "", _Watch(nodes, cloud, job.until)
    while True:
        story = watch.story(first)
        if story.machine is not None and (other := job.differs(story.machine)):
            raise SweepError(f"nothing was measured: {other}")
        _check(story)
        if story.meeting is not None and job.helper is not None and not helper:
            helper = f"{job.name}-1"
            nodes.rent(job.helper(offer, helper, story.meeting), job.rental(offer, helper), job.until)
        if helper:
            _check(watch.story(helper))
        if story.parts:
            progress("profile", *story.counts)
        if story.is_done and story.machine is not None:
            return _found(offer, story, story.machine)
        watch.wait()


def _rented(job: RentedJob, nodes: RentedNodes) -> tuple[Offer, str]:
    """Rent a node of the first offer that is not refused. Raises the CloudError of the last one."""
    refusals = []
    for number, offer in enumerate(job.offers):
        name = f"{job.name}-0-{number}"
        try:
            nodes.rent(job.request(offer, name), job.rental(offer, name), job.until)
        except CloudError as error:
            refusals.append(error)
            if not isinstance(error, StockOutError | QuotaError | GiveUpError):
                raise  # of our own: no other offer would do either
            continue
        return offer, name
    raise refusals[-1]


def _check(story: NodeStory) -> None:
    """Raises SweepError where the node has said that it cannot."""
    if story.failed is not None:
        raise SweepError(f"{story.failed.part} could not be measured: {printable(story.failed.why)}")


class _Watch:
    """Looks at nodes, one after the other."""

    def __init__(self, nodes: RentedNodes, cloud: PrintReader, until: datetime) -> None:
        self._nodes = nodes
        self._cloud = cloud
        self._until = until
        self._missing_since: dict[str, datetime] = {}

    def story(self, name: str) -> NodeStory:
        """Return what the node has printed. Raises SweepError where it will print no more and is not done."""
        try:
            states = {node.name: node.state for node in self._nodes.cloud.list({}, self._nodes.pace.now())}
            # Its log is read after its life is looked at: an ended node has printed all it ever will.
            story = NodeStory.of(self._cloud.printed(name, 2 * MAX_LINES))
            if not story.is_done and story.failed is None:
                self._check_life(name, states, story)
        except RetryLaterError:  # nothing is known for now
            return NodeStory()
        return story

    def wait(self) -> None:
        """Raises SweepError at the end of the time."""
        pace = self._nodes.pace
        if pace.now() >= self._until:
            raise SweepError("it was not measured in the time that it had: give more with --max-minutes")
        pace.wait(pace.poll_s)

    def _check_life(self, name: str, states: dict[str, CloudNodeState], story: NodeStory) -> None:
        now, cloud = self._nodes.pace.now(), self._nodes.cloud
        if states.get(name) is CloudNodeState.BROKEN:
            raise SweepError(f"{name} was lost while it was measured: its cloud lists it as broken")
        if name not in states:
            since = self._missing_since.setdefault(name, now)
            if story.machine is not None or now - since >= LISTED_WITHIN:
                raise SweepError(f"{name} was lost while it was measured: its cloud does not list it any more")
        elif isinstance(cloud, LogReader) and (why := cloud.failure(name, now)):
            raise SweepError(f"{name} does not come up: {printable(why)}")


def _found(offer: Offer, story: NodeStory, machine: Machine) -> RentedSweep:
    (*blocks, hand_off), (pipeline,) = _lines(story, "engine"), _lines(story, "pipeline")
    pair = [_decoded(each, PairCost) for each in _lines(story, "pair")] if "pair" in story.parts else []
    return RentedSweep(
        offer,
        machine,
        rows_of([_decoded(each, ProfileBlock) for each in blocks], _WHOLE),
        _decoded(hand_off, HandOffCost),
        _decoded(pipeline, PipelineCost),
        pair[0] if pair else None,
    )


def _lines(story: NodeStory, part: str) -> Sequence[bytes]:
    """Return the lines of a part behind its header. Raises SweepError where there are others than it says."""
    if part not in story.parts:
        raise SweepError(f"{part}: nothing of it came")
    header, *lines = story.parts[part]
    expected = _decoded(header, Header).lines
    if len(lines) != expected or not lines:
        raise SweepError(f"{part}: {len(lines)} lines of {expected} came")
    return lines


def _decoded(line: bytes, kind: type[_Kind]) -> _Kind:
    """Raises SweepError."""
    try:
        return msgspec.json.decode(line, type=kind)
    except msgspec.DecodeError as error:
        raise SweepError(f"what came from the node is no {kind.__name__}: {error}") from None
