"""The applications of DyOrc's evaluation (section 8), by assumption: the paper names neither most of the models, nor
their times, nor the rate of requests.

Weights of an A800 (80 GB) have 40 GiB, the rest is for what is computed; they come from host memory at 12 GiB/s. Times
are those of some tens of tokens. Runs come as the clients of ServeGen's m-mid do, mapped to applications in turn.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from control.simulator.workflows.place_cluster import PlaceLinks
from control.simulator.workflows.simulated_run import SimulatedCall, SimulatedRun, SimulatedService
from templates_lib.load.arrivals import arrival_times
from templates_lib.load.rate_series import RateSeries
from templates_lib.load.traces import iterate_rows

MEMORY_GIB, LOAD_GIB_PER_S = 40.0, 12.0
TENSORS = PlaceLinks(latency_s=0.0005, within_mib_per_s=100_000.0, across_mib_per_s=10_000.0)
"""NVLink in a machine and 100 Gbit/s between: DyOrc's own messages."""
PICKLED = PlaceLinks(latency_s=0.002, within_mib_per_s=600.0, across_mib_per_s=500.0)
"""What 12.6 MB took through pickle and a socket (19.4 ms): the baselines' messages."""
CARDS, MOST_ROUNDS = 26, 4
RATES_FILE, MODEL, WINDOW_S = "servegen_client_rates.csv.gz", "m-mid", 600.0
Chance = np.random.Generator
Waves = tuple[tuple[SimulatedCall, ...], ...]


def _service(name: str, memory_gib: float, base_s: float, call_s: float, most: int, mib: float) -> SimulatedService:
    return SimulatedService(name, memory_gib, memory_gib / LOAD_GIB_PER_S, base_s, call_s, most, mib)


LLM = _service("llm", 26.0, 1.5, 0.05, 16, 0.1)
"""13B parameters; KNOWLEDGECARD and DEBATE share it."""
GILL_SERVICES = (
    _service("vision", 2.0, 0.03, 0.01, 32, 12.0),
    _service("gill-llm", 13.5, 1.0, 0.04, 16, 12.0),
    _service("diffusion", 5.0, 0.8, 0.9, 8, 3.0),
)
CARD_SERVICES = tuple(_service(f"card-{number}", 2.6, 0.6, 0.02, 16, 0.1) for number in range(CARDS))


def gill(chance: Chance) -> Waves:
    """Pictures are encoded, the answer is written, and three of ten answers want a picture."""
    pictures = int(chance.integers(0, 3))
    first = [SimulatedCall("vision")] * pictures + [SimulatedCall("gill-llm", tuple(range(pictures)))]
    drawn = ((SimulatedCall("diffusion", (pictures,)),),) if chance.random() < 0.3 else ()
    return (tuple(first), *drawn)


def knowledge_card(chance: Chance) -> Waves:
    """The large model asks cards, of which some are asked often, until it knows enough."""
    shares = 1 / np.arange(1.0, CARDS + 1)
    waves: list[tuple[SimulatedCall, ...]] = [(SimulatedCall("llm"),)]
    last = 0
    while last < 2 * MOST_ROUNDS and chance.random() < 0.6:
        card = int(chance.choice(CARDS, p=shares / shares.sum()))
        waves.append((SimulatedCall(f"card-{card}", (last,)), SimulatedCall("llm", (last + 1,))))
        last += 2
    return tuple(waves)


def debate(chance: Chance) -> Waves:
    """Three agents answer by what all have said, until they agree."""
    waves = [(SimulatedCall("llm"),) * 3]
    while len(waves) < MOST_ROUNDS and chance.random() < 0.5:
        before = tuple(range(3 * len(waves) - 3, 3 * len(waves)))
        waves.append((SimulatedCall("llm", before),) * 3)
    return tuple(waves)


APPS: dict[str, tuple[Callable[[Chance], Waves], tuple[SimulatedService, ...]]] = {
    "GILL": (gill, GILL_SERVICES),
    "KNOWLEDGECARD": (knowledge_card, (LLM, *CARD_SERVICES)),
    "DEBATE": (debate, (LLM,)),
}
SCENARIOS: dict[str, tuple[tuple[str, ...], float]] = {
    "GILL": (("GILL",), 0.4),
    "KNOWLEDGECARD": (("KNOWLEDGECARD",), 0.15),
    "DEBATE": (("DEBATE",), 0.15),
    "MIX": (("GILL", "KNOWLEDGECARD", "DEBATE"), 0.2),
}
"""Scenario → applications, and runs/s for each place."""


def services_of(apps: Sequence[str]) -> dict[str, SimulatedService]:
    return {service.name: service for app in apps for service in APPS[app][1]}


def client_rates(folder: Path, length_s: float) -> list[RateSeries]:
    """Each client's rates from the start of the trace, with its burstiness; clients that are silent are left out."""
    windows = int(np.ceil(length_s / WINDOW_S))
    rates: dict[str, np.ndarray] = {}
    for _, row in iterate_rows(folder / RATES_FILE):
        window = int(float(row["t_s"]) / WINDOW_S)
        if row["model"] == MODEL and window < windows:
            found = rates.setdefault(row["client"], np.stack([np.zeros(windows), np.ones(windows)]))
            found[:, window] = float(row["rate_req_s"]), float(row["cv"] or 1.0)
    return [RateSeries(client, WINDOW_S, *rates[client]) for client in sorted(rates, key=int)]


def runs_of(
    apps: Sequence[str], clients: Sequence[RateSeries], runs_per_s: float, length_s: float, shift: dict[str, float]
) -> list[SimulatedRun]:
    """Runs of so many a second in the mean. `shift`: application → how often it is asked in the second half, by the
    first."""
    total = sum(client.mean_requests_per_s for client in clients)
    found: list[SimulatedRun] = []
    for number, client in enumerate(clients):
        app = apps[number % len(apps)]
        chance = np.random.default_rng((26, number))
        more = shift.get(app, 1.0)
        scaled = client.scaled_to(client.mean_requests_per_s / total * runs_per_s * max(1.0, more))
        for asked_s in arrival_times(scaled, number):
            half = more if asked_s >= length_s / 2 else 1.0
            if asked_s < length_s and chance.random() < half / max(1.0, more):
                found.append(SimulatedRun(app, asked_s, APPS[app][0](chance)))
    return sorted(found, key=lambda run: run.asked_s)
