"""Tiny models of every architecture of the catalogue, as the engine runs them on a GPU, against transformers.

    python -m bench.gpu_tokens [--device cuda]

Random weights in fp32, greedy: a prompt in chunks, then single tokens, so that the steps which are recorded as a graph
are replayed. A token may differ only where transformers' two best logits are nearer than 1e-3.
"""

import argparse
import logging
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from agents.engines.layer_range import LayerRange
from agents.engines.torch_engine.engine import load_torch_engine
from agents.weights.source import open_checkpoint
from tests.agents.engines.offered_models import LAYERS, offered, save_tiny, tiny_config
from tests.agents.engines.pipelines import Pipeline
from tests.agents.engines.tiny_models import prompt_of, reference

NEAR_TIE = 1e-3
TOKENS = 24


def differs_at(name: str, folder: Path, device: torch.device) -> int | None:
    """Return the first token that is another, not counting near ties; None: all are the same."""
    saved, model = save_tiny(tiny_config(name), folder)
    engine = load_torch_engine(open_checkpoint(saved), LayerRange.whole(LAYERS), 16, torch.float32, device)
    prompt = prompt_of(45)
    tokens = Pipeline([engine]).generate(prompt, TOKENS, chunk=17)
    expected, gaps = reference(model, prompt, TOKENS)
    first = next((i for i, pair in enumerate(zip(tokens, expected, strict=True)) if pair[0] != pair[1]), None)
    return None if first is None or gaps[first] < NEAR_TIE else first


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", type=torch.device, default=torch.device("cuda"))
    device = parser.parse_args().device
    logging.basicConfig(format="%(message)s")
    torch.backends.cuda.matmul.allow_tf32 = False
    wrong = 0
    for name in sorted({model for model, engine, *_ in offered() if engine == "torch"}):
        with TemporaryDirectory() as folder:
            at = differs_at(name, Path(folder), device)
        print(f"{name}: {'the same tokens' if at is None else f'token {at} is another'}", flush=True)
        wrong += at is not None
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
