"""Nodes rented for one measurement: on record before they are asked for, and given back whatever becomes of it."""

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from control.cloud.errors import CloudError, RetryLaterError
from control.cloud.node import CloudNode, NodeRequest
from control.cloud.port import Cloud
from control.cloud.ssh.cloud import OwnMachines, host_of
from control.profiles.measurement_jobs import SweepError
from control.profiles.rentals import HeldRental, Rental, Rentals

LISTED_WITHIN = timedelta(minutes=2)
"""No cloud takes longer to list what it has created."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Time, as whoever rents tells it and lets it pass."""

    now: Callable[[], datetime]
    """UTC."""
    wait: Callable[[float], None]
    """Waits for so many seconds."""
    until_done: Callable[[Future[CloudNode], float], None]
    """Waits for an answer, for so many seconds at most."""
    poll_s: float = 5.0
    """Between two looks at a node: each may go there by ssh."""
    end_patience: timedelta = timedelta(minutes=10)
    """How long a cloud is asked to end a node. What it lists then still is left on record."""
    ending: Callable[[], None] = lambda: None
    """Called before nodes are given back: nothing is to interrupt that."""


class RentedNodes:
    """Nodes of one cloud."""

    def __init__(self, cloud: Cloud, rentals: Rentals, tags: Mapping[str, str], pace: Pace) -> None:
        """`tags`: that all of them have."""
        self.cloud = cloud
        self.pace = pace
        self._rentals = rentals
        self._tags = tags
        self._held: dict[str, HeldRental] = {}
        self._asked: dict[str, tuple[Future[CloudNode], datetime]] = {}
        """Answers of clouds, and when each was asked for, the last of each node."""
        self._unknown: dict[str, datetime] = {}
        """When a node was asked for last whose cloud did not say what became of it."""
        self._host: dict[str, str] = {}
        """Own machine that a node was seen on."""

    def rent(self, request: NodeRequest, rental: Rental, until: datetime) -> CloudNode:
        """Rent the node; it is on record from before its cloud is asked. Raises SweepError where it is not up at
        `until`, and the CloudError of a refusal: nothing is left behind it, unless the cloud did not say before what
        became of an earlier try, which stays on record then until it is given back."""
        if isinstance(self.cloud, OwnMachines):
            rental = replace(rental, hosts=self.cloud.like(rental.instance_type, rental.zone))
        self._held[request.name] = self._rentals.open(rental)
        while True:
            asked = self._ask(request)
            self._asked[request.name] = asked, self.pace.now()
            while not asked.done():
                if self.pace.now() >= until:
                    raise SweepError(f"{rental.instance_type} in {rental.zone} was not up in the time that it had")
                self.pace.until_done(asked, self.pace.poll_s)
            try:
                node = asked.result()
            except RetryLaterError as error:
                self._unknown[request.name] = self._asked[request.name][1]
                if self.pace.now() + timedelta(seconds=error.retry_after_s) >= until:
                    raise SweepError(f"{rental.instance_type} in {rental.zone} was not up in time: {error}") from error
                self.pace.wait(error.retry_after_s)
            except CloudError:
                if request.name not in self._unknown:
                    self._held.pop(request.name).remove()
                raise
            else:
                self._see([node])
                return node

    def take_over(self, left: HeldRental) -> None:
        """Count a node that another run has left among these."""
        self._held[left.rental.node] = left

    def give_back(self) -> dict[str, str]:
        """End all nodes, and return those that may still cost money, with why: they stay on record."""
        self.pace.ending()
        failed = {}
        for name in sorted(self._held):
            held = self._held.pop(name)
            why = self._end(name, held)
            if why:
                held.leave()
                failed[name] = why
            else:
                held.remove()
        return failed

    def _ask(self, request: NodeRequest) -> Future[CloudNode]:
        """Ask in a thread, which may take as long as the cloud does: whoever waits gives up before."""
        answer: Future[CloudNode] = Future()

        def create() -> None:
            try:
                answer.set_result(self.cloud.create(request, self.pace.now()))
            except BaseException as error:
                answer.set_exception(error)

        threading.Thread(target=create, name=f"rent {request.name}", daemon=True).start()
        return answer

    def _end(self, name: str, held: HeldRental) -> str:
        """Have the cloud end the node; return why it may still be there; empty: the cloud lists it no more."""
        try:
            if isinstance(self.cloud, OwnMachines):
                self.cloud.learn(held.rental.hosts)
        except ValueError as error:  # another machine has the name of its host now
            return str(error)
        give_up, why = self.pace.now() + self.pace.end_patience, ""
        while True:
            is_settled = self._is_settled(name)
            try:
                if isinstance(self.cloud, OwnMachines) and name not in self._host:
                    self._see(self.cloud.list(self._tags, self.pace.now()))
                self.cloud.terminate(name, self.pace.now())
                listed = {node.name for node in self.cloud.list(self._tags, self.pace.now())}
                why = "its cloud still lists it" if name in listed else "" if is_settled else "its launch is under way"
                why = why or self._unheard(held)
            except CloudError as error:
                why = str(error)
            if not why or self.pace.now() >= give_up:
                return why
            if name in self._asked and not self._asked[name][0].done():
                self.pace.until_done(self._asked[name][0], self.pace.poll_s)
            else:
                self.pace.wait(self.pace.poll_s)

    def _see(self, nodes: Iterable[CloudNode]) -> None:
        if isinstance(self.cloud, OwnMachines):
            self._host |= {node.name: host_of(node) for node in nodes}

    def _unheard(self, held: HeldRental) -> str:
        """Say why the node may be on an own machine though none lists it; empty: the machine has answered."""
        if not isinstance(self.cloud, OwnMachines):
            return ""
        rental = held.rental
        known = rental.hosts or self.cloud.like(rental.instance_type, rental.zone)
        if not known:
            why = f"no host is known that is a {rental.instance_type} in {rental.zone}"
        else:
            seen = self._host.get(rental.node)
            silent = self.cloud.unheard([seen] if seen else [host.name for host in known])
            why = f"it may be on host {' or '.join(silent)}, which does not answer" if silent else ""
        return f"{why} (if that is gone for good, remove {held.path})" if why else ""

    def _is_settled(self, name: str) -> bool:
        """Tell whether a node that its cloud does not list will not come yet: a launch that is under way, or whose
        answer was lost, may make it after it was ended, and then it is ended once more."""
        if name not in self._asked:
            return True
        answer, asked_at = self._asked[name]
        if not answer.done():
            return False
        error = answer.exception()
        unknown_at = asked_at if isinstance(error, RetryLaterError) else self._unknown.get(name)
        return error is None or unknown_at is None or self.pace.now() - unknown_at >= LISTED_WITHIN
