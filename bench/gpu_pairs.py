"""Two cards that work together: rows and KV caches from one to the other, and a model cut over both by heads.

    python -m bench.gpu_pairs [--device cuda]

As two nodes of a pipeline, two processes send each other the rows of steps (NCCL from card to card) and pieces of KV
caches; as the ranks of one stage, two processes hold half of the heads of a tiny model each, and give the tokens of
transformers. With fewer than two cards NCCL cannot run (it refuses two processes on one), which is said, with what gloo
does by way of memory; the exit status is 69 then. `--device cpu` tries all of it over gloo.
"""

import argparse
import logging
import os
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from agents.engines.layer_range import LayerRange
from agents.engines.torch_engine.sharded_engine import load_sharded_engine
from agents.profile.pair_cost import PairEnd, measure_pair
from agents.transfer.rendezvous import Rendezvous
from bench.gpu_tokens import NEAR_TIE, TOKENS
from templates_lib.values.pair_cost import PairCost
from tests.agents.engines.pipelines import Pipeline
from tests.agents.engines.tiny_models import LAYERS, prompt_of, reference, save_model

HIDDEN, DTYPE = 4096, torch.bfloat16
"""Of Llama 3 8B."""
_PEER_S = 60.0


def _measured(end: PairEnd) -> PairCost | None:
    """In a process of its own."""
    return measure_pair(end)


def rows_and_caches(devices: tuple[torch.device, torch.device]) -> PairCost:
    """What two processes measure, on these devices; the first sends."""
    with closing(Rendezvous("127.0.0.1")) as meeting, ProcessPoolExecutor(2, get_context("spawn")) as processes:
        ends = [
            processes.submit(_measured, PairEnd(meeting.address, sends, HIDDEN, DTYPE, device))
            for sends, device in zip((True, False), devices, strict=True)
        ]
        ends[0].result()
        found = ends[1].result()
    if found is None:
        raise RuntimeError("the end that takes has measured nothing")
    return found


def cut_over(devices: tuple[torch.device, ...]) -> int | None:
    """Return the first token that is another than transformers', not counting near ties; None: all are the same."""
    with TemporaryDirectory() as folder:
        model = save_model("llama", Path(folder))
        held = LayerRange.whole(LAYERS)
        engine = load_sharded_engine(Path(folder), held, 16, torch.float32, devices, False, _PEER_S)
        prompt = prompt_of(45)
        try:
            tokens = Pipeline([engine]).generate(prompt, TOKENS, chunk=17)
        finally:
            engine.close()
    expected, gaps = reference(model, prompt, TOKENS)
    first = next((i for i, pair in enumerate(zip(tokens, expected, strict=True)) if pair[0] != pair[1]), None)
    return None if first is None or gaps[first] < NEAR_TIE else first


def report(found: PairCost, say: Callable[[str], None]) -> None:
    for hop in found.hops:
        rate = hop.rows * HIDDEN * DTYPE.itemsize / hop.seconds / 1e9
        say(f"{hop.rows} rows from one to the other: {1000 * hop.seconds:.2f} ms over {found.way}, {rate:.2f} GB/s")
    say(f"KV caches over one link, by way of memory: {found.kv_bytes_per_s / 1e9:.2f} GB/s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    kind = parser.parse_args().device
    logging.basicConfig(format="%(message)s")
    torch.backends.cuda.matmul.allow_tf32 = False
    cards = torch.cuda.device_count() if kind == "cuda" else 0
    if kind == "cuda" and not cards:
        print("cannot run: torch finds no GPU here")
        return os.EX_UNAVAILABLE
    first, second = (torch.device(kind, n % cards) if cards else torch.device(kind) for n in range(2))
    found = rows_and_caches((first, second))
    report(found, lambda text: print(text, flush=True))
    if cards == 1:
        print("cannot run: NCCL takes two cards, and there is one; over it nothing was measured")
        return os.EX_UNAVAILABLE
    at = cut_over((first, second))
    print(f"a model cut over two ranks: {'the same tokens' if at is None else f'token {at} is another'}", flush=True)
    carried = found.way == "NCCL" or kind == "cpu"
    if not carried:
        print("NCCL carries nothing between the two cards: see the warning above")
    return 0 if at is None and carried else 1


if __name__ == "__main__":
    sys.exit(main())
