"""One process that decodes with the whole model, as a node of `bench.local_throughput`: tokens/s of the torch engine
and of transformers' generate, and of the engine with more requests, as a line of JSON in a file.

    python -m bench.local_single --batch 16 --all-at-once 48 --out FILE
"""

import argparse
import json
import statistics
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

from bench.torch_engine import FILE, LAYERS, PACKAGE, PROMPT, TOKENS, engine_decode, stages_of, transformers_decode
from templates_lib.models.weights_place import package_folder

RUNS = 2


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--all-at-once", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    prompt = torch.randint(100, 40_000, (PROMPT,), generator=torch.Generator().manual_seed(0))
    stages = stages_of((LAYERS,), torch.float32, arguments.all_at_once * -(-(PROMPT + TOKENS) // 16))
    folder = package_folder(PACKAGE)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=FILE, dtype=torch.float32).eval()
    batch, most = arguments.batch, arguments.all_at_once
    rates = {
        name: requests * TOKENS / statistics.median(way()[0] for _ in range(RUNS))
        for name, requests, way in (
            ("engine", batch, lambda: engine_decode(stages, prompt, batch)),
            ("transformers", batch, lambda: transformers_decode(model, prompt, batch)),
            ("engine, all at once", most, lambda: engine_decode(stages, prompt, most)),
        )
    }
    arguments.out.write_text(json.dumps(rates))
    return 0


if __name__ == "__main__":
    sys.exit(main())
