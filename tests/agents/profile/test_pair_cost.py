"""What lies between two nodes is measured by the end that takes."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch

from agents.profile import pair_cost
from agents.profile.pair_cost import ROWS, PairEnd, measure_pair
from agents.transfer.errors import LinkLostError
from agents.transfer.rendezvous import Rendezvous
from templates_lib.values.pair_cost import HopTime, PairCost


@pytest.fixture
def taking(monkeypatch: pytest.MonkeyPatch) -> Iterator[PairEnd]:
    monkeypatch.setattr(pair_cost, "ROUNDS", 4)
    monkeypatch.setattr(pair_cost, "_KV_PIECES", 3)
    meeting = Rendezvous("127.0.0.1")
    yield PairEnd(meeting.address, False, 64, torch.float32, torch.device("cpu"), patience_s=20.0)
    meeting.close()


def test_both_kinds_of_traffic_are_timed_by_the_end_that_takes(taking: PairEnd) -> None:
    with ThreadPoolExecutor(2) as pool:
        sent = pool.submit(measure_pair, replace(taking, sends=True))
        found = measure_pair(taking)
        assert sent.result() is None
    assert found is not None
    assert tuple(hop.rows for hop in found.hops) == ROWS
    assert all(hop.seconds > 0 for hop in found.hops)
    assert found.way == "gloo"
    assert found.kv_bytes_per_s > 0


def test_an_end_whose_other_never_comes_says_so(taking: PairEnd) -> None:
    with pytest.raises(LinkLostError):
        measure_pair(replace(taking, patience_s=0.5))


def test_hops_of_other_sizes_follow_those_that_were_measured() -> None:
    cost = PairCost((HopTime(1, 1.0), HopTime(3, 2.0)), "NCCL", 1.0)
    assert cost.hop_seconds(np.array([0.5, 1.0, 2.0, 3.0, 6.0])).tolist() == [1.0, 1.0, 1.5, 2.0, 4.0]
