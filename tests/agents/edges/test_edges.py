"""Edges between real processes: rows arrive whole and in order, and an end that is lost is noticed."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import timedelta

import pytest
import torch

from agents.edges.edge import BadRowsError, Receiver, Sender, connect_receiver, connect_sender
from agents.edges.mesh import MeshPlace, connect_mesh
from agents.edges.nccl_pair import agree
from agents.edges.settings import EdgeSettings
from agents.transfer.errors import LinkLostError
from agents.transfer.rendezvous import Rendezvous, join
from tests.agents.edges.ends import HIDDEN, PATIENCE_S, settings

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def rendezvous() -> Iterator[Rendezvous]:
    with closing(Rendezvous("127.0.0.1")) as made:
        yield made


@pytest.fixture
def start(rendezvous: Rendezvous) -> Iterator[Start]:
    """Ends in processes of their own, which end with the test."""
    started = []

    def run(kind: str, *arguments: object) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "tests.agents.edges.ends", kind, str(rendezvous.port), *map(str, arguments)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def pair(rendezvous: Rendezvous, agreed: EdgeSettings) -> tuple[Sender, Receiver]:
    """Both ends of an edge in this process."""
    senders: list[Sender] = []
    at = (rendezvous.host, rendezvous.port, PATIENCE_S)
    other = threading.Thread(target=lambda: senders.append(connect_sender(join(*at), "e", agreed)))
    other.start()
    receiver = connect_receiver(join(*at), "e", agreed)
    other.join()
    return senders[0], receiver


def relay(port: int, place: MeshPlace, rounds: int) -> list[int]:
    """Sends to all behind it what came from all before, plus a number of its own; sums by round."""
    mesh = connect_mesh(join("127.0.0.1", port, PATIENCE_S), place, settings())
    sums = []
    for rows in range(1, rounds + 1):
        total = torch.full((rows, HIDDEN), float(place.worker + 1))
        for receiver in mesh.incoming.values():
            total += receiver.receive(rows)
        for sender in mesh.outgoing.values():
            sender.send(total)
        sums.append(int(total.sum()))
    for sender in mesh.outgoing.values():
        sender.flush()
    return sums


def line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_arrive_bit_for_bit_and_in_order(rendezvous: Rendezvous, dtype: torch.dtype) -> None:
    sender, receiver = pair(rendezvous, settings(dtype=dtype))
    sent = [torch.randn(HIDDEN, n).to(dtype).T for n in (1, 7, 1000)]
    for rows in sent:
        sender.send(rows)
    for rows in sent:
        assert torch.equal(receiver.receive(len(rows)), rows)
    sender.flush()


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_two_ends_between_which_nccl_does_not_work_take_gloo(rendezvous: Rendezvous, device: str) -> None:
    """For want of NCCL, of a GPU, or of a second GPU."""
    sender, receiver = pair(rendezvous, settings(tries_nccl=True, device=torch.device(device)))
    rows = torch.randn(3, HIDDEN)
    sender.send(rows)
    assert torch.equal(receiver.receive(3), rows)


@pytest.mark.parametrize("said", [(True, True), (True, False), (False, True), (False, False)])
def test_both_ends_come_to_the_same_verdict(rendezvous: Rendezvous, said: tuple[bool, bool]) -> None:
    with ThreadPoolExecutor(2) as pool:
        stores = [join(rendezvous.host, rendezvous.port, PATIENCE_S) for _ in said]
        assert set(pool.map(agree, stores, ("works",) * 2, (0, 1), said)) == {all(said)}


def test_an_end_that_does_not_say_whether_it_has_nccl_is_lost(rendezvous: Rendezvous) -> None:
    store = join(rendezvous.host, rendezvous.port, PATIENCE_S)
    store.set_timeout(timedelta(seconds=0.5))
    with pytest.raises(LinkLostError, match="whether NCCL has it"):
        connect_sender(store, "e", settings(tries_nccl=True))


def test_rows_go_from_every_peer_to_every_peer_and_through_the_parts_of_one(rendezvous: Rendezvous) -> None:
    rounds = 3
    sources: tuple[tuple[int, ...], ...] = ((), (), (0, 1), (2,), (0, 1), (3, 4), (3, 4))
    targets = [tuple(to for to, of in enumerate(sources) if worker in of) for worker in range(len(sources))]
    places = [MeshPlace(worker, sources[worker], targets[worker]) for worker in range(len(sources))]
    with ThreadPoolExecutor(len(places)) as pool:
        sums = list(pool.map(lambda place: relay(rendezvous.port, place, rounds), places))
    through_two_parts = (1 + 2) + 3 + 4
    through_one = (1 + 2) + 5
    for worker in (5, 6):
        total = through_two_parts + through_one + worker + 1
        assert sums[worker] == [total * rows * HIDDEN for rows in range(1, rounds + 1)]


def test_a_sender_that_is_killed_is_noticed_at_once(rendezvous: Rendezvous, start: Start) -> None:
    other = start("send", 1)
    receiver = connect_receiver(join("127.0.0.1", rendezvous.port, PATIENCE_S), "e", settings(timeout_s=300))
    receiver.receive(1)
    assert line(other) == "sent"
    other.kill()
    with pytest.raises(LinkLostError, match="e is lost"):
        receiver.receive(1)


def test_a_receiver_that_is_killed_is_noticed_by_who_sends_on(rendezvous: Rendezvous, start: Start) -> None:
    other = start("receive", 1)
    sender = connect_sender(join("127.0.0.1", rendezvous.port, PATIENCE_S), "e", settings(timeout_s=300))
    sender.send(torch.zeros(1, HIDDEN))
    assert line(other) == "received"
    other.kill()

    def send_on() -> None:
        for _ in range(10):
            sender.send(torch.zeros(1, HIDDEN))

    with pytest.raises(LinkLostError):
        send_on()


def test_a_silent_sender_counts_as_lost(rendezvous: Rendezvous) -> None:
    _sender, receiver = pair(rendezvous, settings(timeout_s=4))  # in which they also have to meet
    with pytest.raises(LinkLostError):
        receiver.receive(1)


def test_a_receiver_that_does_not_take_its_rows_counts_as_lost(rendezvous: Rendezvous) -> None:
    sender, _receiver = pair(rendezvous, settings(unsent=1))
    sender._settings = replace(sender._settings, peer_timeout_s=1.0)
    sender.send(torch.zeros(1, HIDDEN))
    with pytest.raises(LinkLostError):
        sender.send(torch.zeros(1, HIDDEN))


def test_an_end_that_never_comes_is_an_error_and_no_wait_for_ever(rendezvous: Rendezvous) -> None:
    store = join("127.0.0.1", rendezvous.port, PATIENCE_S)
    with pytest.raises(LinkLostError, match="did not come"):
        connect_sender(store, "e", settings(timeout_s=0.5))


def test_rows_that_were_not_agreed_on_are_refused_before_anything_is_sent(rendezvous: Rendezvous) -> None:
    sender, receiver = pair(rendezvous, settings())
    for rows in (torch.zeros(1, HIDDEN + 1), torch.zeros(0, HIDDEN), torch.zeros(1001, HIDDEN)):
        with pytest.raises(BadRowsError):
            sender.send(rows)
    with pytest.raises(BadRowsError, match=r"torch\.float32"):
        sender.send(torch.zeros(1, HIDDEN, dtype=torch.float64))
    with pytest.raises(BadRowsError, match="1 to 1000"):
        receiver.receive(0)
    sender.send(torch.ones(1, HIDDEN))
    assert receiver.receive(1).sum() == HIDDEN


@pytest.mark.parametrize("place", [(1, (1,), ()), (1, (2,), ()), (1, (), (0,)), (1, (0,), (1,))])
def test_rows_that_would_go_back_are_refused(place: tuple[int, tuple[int, ...], tuple[int, ...]]) -> None:
    with pytest.raises(ValueError, match="from lower to higher workers only"):
        MeshPlace(*place)
