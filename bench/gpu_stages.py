"""The torch engine on a GPU: steps of one stage against the card's roofline.

    python -m bench.gpu_stages --gpu H100 [--layers 32] [--device cuda] [--ways graphs,kernels,plain]

A Llama of 8 billion parameters (its published shape, bf16, random weights made on the device). A decode step reads all
weights and the KV cache of its requests once: printed is the share of the card's memory rate at which it does. A step
of prompts multiplies every weight with every token, and each token with the half of the prompt before it in the mean:
printed is the share of the card's bf16 rate. Both rates are those of `templates_lib/data/hardware/gpus.csv`.

Each way by itself: decode steps recorded as CUDA graphs, with Triton's kernels; the kernels without graphs; and torch's
operations alone.

`--device cpu --layers 1` tries all of it without a GPU. What lies between two stages is `bench.gpu_pairs`.
"""

import argparse
import logging
import math
import os
import statistics
import time
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from agents.engines.batch import StepBatch, StepRequest
from agents.engines.layer_range import LayerRange
from agents.engines.sampling import GREEDY
from agents.engines.torch_engine import engine as engine_module
from agents.engines.torch_engine import triton_support
from agents.engines.torch_engine.block_table import BLOCK_TOKENS
from agents.engines.torch_engine.engine import TorchEngine, load_torch_engine
from templates_lib.values.gpu import Gpu
from templates_lib.values.hardware import gpu

HIDDEN, HEADS, KV_HEADS, HEAD_DIM, VOCABULARY = 4096, 32, 8, 128, 128256
SHAPE: dict[str, Any] = {
    "hidden_size": HIDDEN,
    "intermediate_size": 14336,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD_DIM,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_type": "default", "rope_theta": 500_000.0},
}
"""Llama 3 8B's config.json."""
DTYPE = torch.bfloat16
BATCHES = (1, 16, 64)
CONTEXT = 1024
PROMPTS = (512, 2048)
STEPS = 8
WAYS = ("graphs", "kernels", "plain")


class RandomCheckpoint:
    """An `agents.weights.Checkpoint` that no file has."""

    def __init__(self, layers: int, device: torch.device) -> None:
        config = LlamaConfig(num_hidden_layers=layers, **SHAPE)
        with torch.device("meta"):
            model = LlamaForCausalLM(config)
        self.path = Path(os.devnull)
        self.layers = layers
        self.device = device
        self.config: dict[str, Any] = config.to_dict()
        self._shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}

    @property
    def names(self) -> Collection[str]:
        return self._shapes.keys()

    def stored_bytes(self, name: str) -> int:
        return math.prod(self.shape(name)) * DTYPE.itemsize

    def shape(self, name: str) -> tuple[int, ...]:
        return self._shapes[name]

    def read(self, name: str) -> torch.Tensor:
        return torch.empty(self.shape(name), dtype=DTYPE, device=self.device).normal_(0, 0.02)

    def multiplied(self) -> int:
        """Weights that every token meets: all but the embedding."""
        return sum(math.prod(shape) for name, shape in self._shapes.items() if "embed" not in name)


def seconds_of(work: Callable[[], object], device: torch.device) -> float:
    """Median of STEPS, after one that warms up and one that is recorded."""
    found = []
    for _ in range(STEPS + 2):
        start = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        found.append(time.perf_counter() - start)
    return statistics.median(found[2:])


def decode(engine: TorchEngine, weights: RandomCheckpoint, card: Gpu, batch: int) -> None:
    ids = [f"r{i}" for i in range(batch)]
    for name in ids:
        engine.reserve(name, CONTEXT)
    position = CONTEXT

    def step() -> None:
        nonlocal position
        requests = tuple(StepRequest(name, position, 1, GREEDY) for name in ids)
        engine.step(StepBatch(requests), torch.full((batch,), 7))
        position += 1

    took_s = seconds_of(step, weights.device)
    kv_bytes = 2 * batch * CONTEXT * weights.layers * KV_HEADS * HEAD_DIM * DTYPE.itemsize
    bytes_per_s = (weights.multiplied() * DTYPE.itemsize + kv_bytes) / took_s
    print(
        f"decode of {batch} behind {CONTEXT} tokens: {1000 * took_s:.2f} ms, {batch / took_s:,.0f} tokens/s, "
        f"{bytes_per_s / 1e9:,.0f} GB/s: {bytes_per_s / card.hbm_bytes_per_s:.0%} of the card's memory rate",
        flush=True,
    )
    for name in ids:
        engine.free(name)


def prefill(engine: TorchEngine, weights: RandomCheckpoint, card: Gpu, tokens: int) -> None:
    def step() -> None:
        engine.step(StepBatch((StepRequest("p", 0, tokens, GREEDY),)), torch.full((tokens,), 7))
        engine.free("p")

    took_s = seconds_of(step, weights.device)
    # The head is computed for the last token alone.
    products = 2 * ((weights.multiplied() - VOCABULARY * HIDDEN) * tokens + VOCABULARY * HIDDEN)
    attention = 4 * weights.layers * HEADS * HEAD_DIM * tokens * tokens / 2
    per_s = (products + attention) / took_s
    print(
        f"prompt of {tokens}: {1000 * took_s:.1f} ms, {tokens / took_s:,.0f} tokens/s, {per_s / 1e12:.1f} TFLOP/s: "
        f"{per_s / (card.peak_bf16_tflops * 1e12):.0%} of the card's bf16 rate",
        flush=True,
    )


def choose(way: str) -> None:
    """For engines that are loaded from now on. Begin with the way that has most."""
    if way != "graphs":
        engine_module.Recorder = partial(_recorder, engine_module.Recorder)
    if way == "plain":
        triton_support._runs = lambda _kind: False
        engine_module.has_decode_steps = lambda _device: False


def _recorder(kind: Callable[..., Any], device: torch.device, *, records: bool) -> Any:  # noqa: ARG001
    return kind(device, records=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", required=True, help="the card's name in gpus.csv")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--ways", default=",".join(WAYS))
    arguments = parser.parse_args()
    logging.basicConfig(format="%(message)s")
    card, device = gpu(arguments.gpu), torch.device(arguments.device)
    weights = RandomCheckpoint(arguments.layers, device)
    blocks = max(BATCHES) * (CONTEXT // BLOCK_TOKENS + 1)
    for way in [way for way in WAYS if way in arguments.ways.split(",")]:
        choose(way)
        start = time.perf_counter()
        engine = load_torch_engine(weights, LayerRange.whole(arguments.layers), blocks, DTYPE, device)
        took_s = time.perf_counter() - start
        print(f"{way}: {arguments.layers} layers on {device} in {took_s:.1f} s, against {card.name}", flush=True)
        for batch in BATCHES:
            decode(engine, weights, card, batch)
        for tokens in PROMPTS:
            prefill(engine, weights, card, tokens)
        engine.close()


if __name__ == "__main__":
    main()
