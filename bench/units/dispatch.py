"""Figure 9 of the MuxServe paper in simulation: adaptive batch scheduling, round robin and first come, first served on
one unit of 4 A100s.

The paper gives rates and ratios of lengths, no lengths, and its requests/s are means weighted by the rates (at most 7.3
and 7.2 here), which the bench prints beside plain ones. `short`: lengths with which adaptive batches do about what the
figure says, and a quarter of the cache that its authors' memory leaves, so that it is short. `flooded`: ShareGPT's
lengths, which ask for about twice what the unit can do.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np

from bench.units.measured import ACTIVATIONS_GIB, ENGINE_GIB, GIB, USABLE, between
from bench.units.profile import Floats, model_of, profile
from bench.units.unit_run import MemberLoad, UnitRun, poisson_requests, run_unit
from policies.shared_units.dispatch import UNIT_DISPATCHES, JobPhase
from templates_lib.values.hardware import load_gpus

GPUS = 4
BLOCK_TOKENS = 16
DURATION_S = 120.0
PROMPT, OUTPUT = 161.0, 338.0
"""Mean tokens of ShareGPT."""
LONGEST = 4096
"""Most tokens of a request of ShareGPT."""
PREFILL_SHARES = {"llama-7b": 80, "llama-13b": 90, "llama-30b": 100, "llama-65b": 100}
DECODE_SHARES = {"llama-7b": 30, "llama-13b": 40, "llama-30b": 60, "llama-65b": 60}
"""Percent: of prefills those of the authors' runs, of decodes as much as the larger models have there."""
PANELS = {
    "a": (("llama-30b", 2.0, 2.0), ("llama-13b", 8.0, 1.0), ("llama-7b", 8.0, 1.0)),
    "b": (("llama-65b", 1.0, 4.0), ("llama-30b", 8.0, 1.0)),
}
"""Panel → (model, requests/s, length)."""
PAPER = {
    "a": {"fcfs-v1": 3.8, "round-robin-v1": 4.1, "adbs-v1": 6.2},
    "b": {"fcfs-v1": 3.2, "round-robin-v1": 4.9, "adbs-v1": 6.6},
}
CASES = {"short": {"a": 0.5, "b": 0.25}, "flooded": {"a": 1.0, "b": 1.0}}
"""Case → panel → lengths, in those of ShareGPT."""
CACHE = 0.25
SEEDS = 3


@dataclass(frozen=True, slots=True)
class ProfiledSteps:
    """Times of the authors' profile."""

    model: str
    prefill_share: int
    decode_share: int

    def prefill_s(self, requests: int, tokens: float) -> float:
        return _seconds(self.model, "prefill", self.prefill_share, requests, _rounded(tokens))

    def decode_s(self, requests: int, context: float) -> float:
        return _seconds(self.model, "decode", self.decode_share, requests, _rounded(context))

    def reads(self, phase: JobPhase, requests: int, tokens: float) -> float:
        spec = model_of(self.model)
        read = spec.weight_bytes
        if phase is JobPhase.DECODE:
            read += requests * tokens * spec.layers * spec.kv_bytes_per_token_per_layer
        seconds = self.prefill_s(requests, tokens) if phase is JobPhase.PREFILL else self.decode_s(requests, tokens)
        return min(1.0, read / (GPUS * load_gpus()["A100-80"].hbm_bytes_per_s) / seconds)


def _rounded(tokens: float) -> int:
    """A few lengths only, so that times are looked up once."""
    return 16 * max(1, round(tokens / 16))


@lru_cache(maxsize=100_000)
def _seconds(model: str, phase: str, share: int, requests: int, tokens: int) -> float:
    return float(between(profile()[model, GPUS, phase], share, np.array([float(requests)]), float(tokens))[0])


def run(seed: int) -> bool:
    """Print requests/s, how much of its rate each member is served, and shares of blocks. Tells whether the order is
    the paper's where the cache is short: adaptive batches, round robin, first come."""
    met = True
    print(f"{'case':8} {'policy':14} {'requests/s':>10} {'weighted':>8} {'paper':>6}  {'served of its rate':20} "
          f"{'blocks':20} {'off':>5}")  # fmt: skip
    for (case, lengths), panel in product(CASES.items(), PANELS):
        loads = [_load(*member, lengths[panel]) for member in PANELS[panel]]
        rates = np.array([load.requests_per_s for load in loads])
        print(f"({panel}) {' : '.join(load.name for load in loads)}, rates {_row(rates / rates.sum())} of all")
        done = {}
        for name in ("adbs-v1", "round-robin-v1", "fcfs-v1"):
            runs = [_run(loads, name, seed + i) for i in range(SEEDS)]
            served = np.mean([each.requests_per_s for each in runs], axis=0)
            blocks = np.mean([each.block_shares for each in runs], axis=0)
            done[name] = float(served.sum())
            paper, off = PAPER[panel][name] if case == "short" else 0.0, np.abs(blocks - rates / rates.sum()).sum() / 2
            weighted = (served * rates).sum() / rates.sum()
            print(f"{case:8} {name:14} {served.sum():10.2f} {weighted:8.2f} {paper or '':>6}  "
                  f"{_row(served / rates):20} {_row(blocks):20} {off:5.2f}")  # fmt: skip
        met = met and (case != "short" or list(done.values()) == sorted(done.values(), reverse=True))
    print("off: how far shares of blocks are from those of rates (0 to 1)")
    return met


def _run(loads: list[MemberLoad], name: str, seed: int) -> UnitRun:
    requests = [poisson_requests(load, DURATION_S, np.random.default_rng([seed, i])) for i, load in enumerate(loads)]
    return run_unit(loads, requests, _pool(loads), UNIT_DISPATCHES[name](), DURATION_S)


def _row(values: Floats) -> str:
    return " : ".join(f"{value:.2f}" for value in values)


def _load(model: str, requests_per_s: float, ratio: float, lengths: float) -> MemberLoad:
    spec, prefill, decode = model_of(model), PREFILL_SHARES[model], DECODE_SHARES[model]
    blocks = 2 * spec.layers * spec.kv_heads / BLOCK_TOKENS
    length, longest = ratio * lengths, int(LONGEST * lengths)
    return MemberLoad(
        model, requests_per_s, PROMPT * length, OUTPUT * length, longest, blocks, prefill / 100, decode / 100,
        ProfiledSteps(model, prefill, decode),
    )  # fmt: skip


def _pool(loads: list[MemberLoad]) -> int:
    """Blocks of all members together: keys or values of one head in one layer, for 16 tokens."""
    weights = sum(model_of(load.name).weight_bytes for load in loads)
    engines = (ACTIVATIONS_GIB + ENGINE_GIB * len(loads)) * GIB
    left = GPUS * (load_gpus()["A100-80"].memory_bytes * USABLE - engines) - weights
    head = model_of(loads[0].name).head_dim
    return int(CACHE * left / (BLOCK_TOKENS * head * 2))
