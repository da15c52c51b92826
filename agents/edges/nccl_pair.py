"""A group of two over NCCL, for an edge between two GPUs: rows go from card to card. Where either end has no NCCL or
its NCCL refuses (two stages on one card), both ends find out and take gloo."""

import logging
import os
from datetime import timedelta

import psutil
import torch
from torch.distributed import PrefixStore, Store, is_nccl_available  # type: ignore[attr-defined]

from agents.edges.pair import RECEIVER, SENDER, Pair
from agents.transfer.errors import LinkLostError
from agents.transfer.rendezvous import first_line

_log = logging.getLogger(__name__)


def connect_nccl_pair(
    store: Store, name: str, rank: int, device: torch.device, interface: str, timeout_s: float
) -> Pair | None:
    """Connects the two ends; None, at both, where NCCL does not carry a first element. `device`: of this end's rows.

    Raises LinkLostError where the other end does not come."""
    ours = PrefixStore(f"{name} nccl", store)
    # who waits for an end without NCCL waits for the whole time-out, so nobody begins before both have it
    if not agree(ours, "has it", rank, device.type == "cuda" and is_nccl_available()):
        return None
    pair = _carrying(ours, name, rank, device, interface, timeout_s)
    return pair if agree(ours, "works", rank, pair is not None) else None


def agree(store: Store, about: str, rank: int, is_so: bool) -> bool:
    """Tells whether it is so at both ends. Raises LinkLostError where the other end does not say."""
    try:
        store.set(f"{about} {rank}", "yes" if is_so else "no")
        return bytes(store.get(f"{about} {1 - rank}")) == b"yes" and is_so
    except RuntimeError as error:
        raise LinkLostError(f"the other end did not say whether NCCL {about}: {first_line(error)}") from error


def _carrying(
    store: Store, name: str, rank: int, device: torch.device, interface: str, timeout_s: float
) -> Pair | None:
    """Makes the group, once an element went from the sender to the receiver; None where NCCL refuses."""
    from torch.distributed import ProcessGroupNCCL

    _bind(interface)
    options = ProcessGroupNCCL.Options()
    options._timeout = timedelta(seconds=timeout_s)
    try:
        element = torch.zeros(1, device=device)
        pair: Pair = ProcessGroupNCCL(PrefixStore("group", store), rank, 2, options)  # type: ignore[assignment]
        work = pair.send([element], RECEIVER, 0) if rank == SENDER else pair.recv([element], SENDER, 0)
        work.wait(timedelta(seconds=timeout_s))
    except (RuntimeError, ValueError) as error:
        _log.warning("%s goes through CPU memory, since NCCL refuses: %s", name, first_line(error))
        return None
    return pair


def _bind(interface: str) -> None:
    """NCCL asks for the name of the interface that has the address, and reads it when it is first used."""
    names = (n for n, has in psutil.net_if_addrs().items() if any(address.address == interface for address in has))
    if (name := next(names, None)) is not None:
        os.environ.setdefault("NCCL_SOCKET_IFNAME", f"={name}")
