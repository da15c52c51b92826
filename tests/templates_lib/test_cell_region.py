"""A cell serves every demand inside its region and no other, whatever the mix; where replicas are matters on nodes."""

import numpy as np
import pytest

from bench.cell_oracles import fewest_placed_by_force, served
from bench.random_graphs import random_problem
from templates_lib.cells.network_design import most_requests
from templates_lib.cells.problem import CellProblem, TimedPath
from templates_lib.cells.region import Schedule, Shortage, schedule_of
from templates_lib.cells.topology import Topology, fewest_gpus_as_printed, fewest_gpus_corrected
from templates_lib.executors.option import DeploymentOption
from templates_lib.executors.path import Path, Traffic, Visit

E, L = DeploymentOption(("e",), name="E"), DeploymentOption(("l",), name="L")
APART = TimedPath("t", Path((Visit("E", ("e",)), Visit("L", ("l",)))), (1.0, 1.0))
PAIR = CellProblem((E, L), {"t": 1.0}, (APART,))
SENT = ((Traffic(0, 1, 1000.0),),)


@pytest.mark.parametrize("seed", range(10))
def test_what_is_inside_has_a_schedule_and_what_is_outside_a_proof(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem, _ = random_problem(rng)
    plan = most_requests(problem, 16)
    held = np.array([float(plan.replicas.get(option.name, 0)) for option in problem.options])
    for mix in rng.dirichlet(np.ones(len(problem.types)), 5):
        shares = {name: float(share) for name, share in zip(problem.types, mix, strict=True)}
        edge, _ = served(CellProblem(problem.options, shares, problem.paths), held)
        inside = schedule_of(problem, plan.replicas, {name: 0.98 * edge * share for name, share in shares.items()})
        assert isinstance(inside, Schedule)
        flows = np.array(inside.flows)
        assert np.all(flows >= -1e-9)
        assert np.all(problem.seconds @ flows <= held * (1 + 1e-7))
        for name, share in shares.items():
            of_type = [f for f, path in zip(flows, problem.paths, strict=True) if path.request_type == name]
            assert sum(of_type) == pytest.approx(0.98 * edge * share, rel=1e-6)
        outside = {name: 1.02 * edge * share for name, share in shares.items()}
        proof = schedule_of(problem, plan.replicas, outside)
        assert isinstance(proof, Shortage)
        prices = np.array([proof.prices[option.name] for option in problem.options])
        costs = prices @ problem.seconds
        least = {name: min(c for c, p in zip(costs, problem.paths, strict=True) if p.request_type == name)
                 for name in shares}  # fmt: skip
        assert np.all(prices >= 0)
        assert sum(outside[name] * least[name] for name in shares) > (prices @ held) * 1.01


def test_a_demand_that_is_none_is_refused() -> None:
    for demand in ({}, {"t": 0.0}, {"t": -1.0}, {"t": float("nan")}, {"u": 1.0}):
        with pytest.raises(ValueError, match=r"requests|'u'"):
            schedule_of(PAIR, {"E": 1, "L": 1}, demand)


def test_the_printed_program_puts_ends_on_nodes_without_a_link() -> None:
    """Two nodes of one GPU: the pair has to be on both. The printed program lets what they send go within one node."""
    topology = Topology((1, 1), np.array([[np.inf, 0.0], [0.0, np.inf]]))
    printed = fewest_gpus_as_printed(PAIR, SENT, topology, 0.5)
    assert printed is not None
    assert printed.gpus == 2
    assert fewest_gpus_corrected(PAIR, SENT, topology, 0.5) is None
    wide = Topology((1, 1), np.full((2, 2), 501.0))
    corrected = fewest_gpus_corrected(PAIR, SENT, wide, 0.5)
    assert corrected is not None
    assert corrected.gpus == 2
    assert fewest_gpus_corrected(PAIR, SENT, Topology((1, 1), np.full((2, 2), 499.0)), 0.5) is None


@pytest.mark.parametrize("seed", range(12))
def test_the_corrected_program_finds_what_every_placement_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem, traffic = random_problem(rng, 3, 3)
    wanted = most_requests(problem, 5).requests_per_s * rng.uniform(0.3, 1)
    if not wanted:
        return
    sent = wanted * float(np.mean([move.bytes_per_request for moves in traffic for move in moves] or [1.0]))
    bandwidth = sent * 10 ** rng.uniform(-1.5, 0.5, (2, 2))
    np.fill_diagonal(bandwidth, np.inf)
    topology = Topology((3, 3), bandwidth)
    corrected = fewest_gpus_corrected(problem, traffic, topology, wanted)
    printed = fewest_gpus_as_printed(problem, traffic, topology, wanted)
    assert (corrected.gpus if corrected else None) == fewest_placed_by_force(problem, traffic, topology, wanted)
    if corrected is not None:
        assert printed is not None
        assert printed.gpus <= corrected.gpus
