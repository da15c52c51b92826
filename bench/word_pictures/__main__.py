"""A model that draws coloured shapes of words: Qwen-Image's denoiser and autoencoder at small size, trained here on
drawn shapes, within half an hour on two cores.

    python -m bench.word_pictures make FOLDER [--pictures 4000] [--steps 800] [--denoising 2600] [--seed 0]
    python -m bench.word_pictures check FOLDER [--pictures 200] [--show PNG]

`make` writes a checkpoint of less than 10 MB. `check` has Medley's engine draw each colour and shape, and fails where
fewer than nine in ten are named right, both colour and shape, by a network that has seen drawn shapes alone.
"""

import argparse
import io
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file

from agents.engines.components.stepped import SteppedAnswer, SteppedEngine
from agents.engines.torch_components.loading import Limits
from agents.engines.torch_components.word_pictures import FAMILY, load_word_pictures
from agents.messages.component_work import AskedPicture
from agents.weights.source import open_checkpoint
from bench.picture_reader.drawing import COLOURS, SHAPES, Drawn, drawn
from bench.word_pictures.autoencoder import train_autoencoder
from bench.word_pictures.denoising import TABLE, train_denoiser
from bench.word_pictures.naming import trained_namer

SIDE = 64
LEAST_RIGHT, LEAST_NAMED, MOST_BYTES = 0.9, 0.97, 10_000_000
HELD_OUT = 1_000_000
"""Seeds from here on are of pictures that are not trained with."""
WORDS = ("a", *sorted(COLOURS), *SHAPES)
VAE: dict[str, Any] = {"base_dim": 8, "dim_mult": [1, 2, 4, 4], "num_res_blocks": 1, "z_dim": 8}
TRANSFORMER: dict[str, Any] = {
    "num_layers": 4,
    "num_attention_heads": 4,
    "attention_head_dim": 32,
    "axes_dims_rope": [8, 12, 12],
    "joint_attention_dim": 64,
    "in_channels": 32,
    "out_channels": 8,
    "patch_size": 2,
}
DRAWS = {"sample_size": SIDE, "steps": 24, "guidance": 4.0, "shift": 2.0}


def pixels_of(pictures: list[Drawn]) -> torch.Tensor:
    """(pictures, 3, SIDE, SIDE) from -1 to 1."""
    small = [
        np.asarray(Image.fromarray(each.pixels).resize((SIDE, SIDE), Image.Resampling.LANCZOS)) for each in pictures
    ]
    return torch.from_numpy(np.stack(small)).permute(0, 3, 1, 2).float() / 127.5 - 1


def make(folder: Path, pictures: int, steps: int, denoising: int, seed: int) -> None:
    began_s = time.perf_counter()
    seen = [drawn(seed + n) for n in range(pictures)]
    decoder, latents, normal = train_autoencoder(VAE, pixels_of(seen), steps, seed)
    denoiser = train_denoiser(TRANSFORMER, WORDS, latents, seen, denoising, seed)
    tensors = {f"vae.{name}": each.detach() for name, each in decoder.held.items()}
    tensors |= {name if name == TABLE else f"transformer.{name}": each for name, each in denoiser.items()}
    folder.mkdir(parents=True, exist_ok=True)
    halves = {name: each.to(torch.bfloat16).contiguous() for name, each in tensors.items()}
    save_file(halves, folder / "model.safetensors")
    config = {"model_type": FAMILY, "words": list(WORDS), **DRAWS, "transformer": TRANSFORMER, "vae": VAE | normal}
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{folder}: {size / 1e6:.1f} MB, made in {time.perf_counter() - began_s:.0f} s")
    if size > MOST_BYTES:
        sys.exit(f"more than {MOST_BYTES / 1e6:g} MB")


def pictures_of(engine: SteppedEngine, texts: list[str]) -> list[Image.Image]:
    """Drawn with seeds 0, 1 and so on, as many together as the engine takes."""
    line = [(n, engine.begin(AskedPicture(text, 0, 0, n))) for n, text in enumerate(texts)]
    found: dict[int, Image.Image] = {}
    while line:
        batch: list[tuple[int, SteppedAnswer]] = line[: engine.facts.most_units]
        pieces = engine.step([answer for _, answer in batch])
        for (number, _), piece in zip(batch, pieces, strict=True):
            if piece is not None:
                found[number] = Image.open(io.BytesIO(piece.data)).convert("RGB")
        line = [each for each in line if not each[1].is_done]
    return [found[n] for n in range(len(texts))]


def check(folder: Path, pictures: int, show: Path | None) -> bool:
    others = [drawn(HELD_OUT + n) for n in range(2200)]
    seen, known = pixels_of(others), [(each.colour, each.shape) for each in others]
    namer = trained_namer(seen[200:], others[200:], 0)
    named = sum(a == b for a, b in zip(namer.names(seen[:200]), known[:200], strict=True)) / 200
    engine = load_word_pictures(open_checkpoint(folder), torch.float32, torch.device("cpu"), Limits())
    wanted = [(colour, shape) for _ in range(-(-pictures // 25)) for colour in sorted(COLOURS) for shape in SHAPES]
    wanted = wanted[:pictures]
    began_s = time.perf_counter()
    made = pictures_of(engine, [f"Draw a {colour} {shape}." for colour, shape in wanted])
    took_s = time.perf_counter() - began_s
    if show is not None:
        sheet = Image.new("RGB", (5 * SIDE, 5 * SIDE))
        for n, image in enumerate(made[:25]):
            sheet.paste(image, (n % 5 * SIDE, n // 5 * SIDE))
        sheet.save(show)
    values = torch.from_numpy(np.stack([np.asarray(each) for each in made])).permute(0, 3, 1, 2).float() / 127.5 - 1
    answers = namer.names(values)
    wrong = Counter((w, a) for w, a in zip(wanted, answers, strict=True) if w != a)
    for (asked, answer), count in wrong.most_common(10):
        print(f"{count} × {' '.join(asked)} looks like {' '.join(answer)}")
    right = 1 - sum(wrong.values()) / pictures
    print(f"drawn shapes that it has not seen are named right: {named:.1%}; bar: {LEAST_NAMED:.0%}")
    each_s = took_s / pictures
    print(f"{right:.1%} of {pictures} pictures show what was asked for, {each_s:.3f} s each; bar: {LEAST_RIGHT:.0%}")
    return right >= LEAST_RIGHT and named >= LEAST_NAMED


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make", help="train the model and write it")
    making.add_argument("folder", type=Path)
    making.add_argument("--pictures", type=int, default=4000)
    making.add_argument("--steps", type=int, default=800, help="of the autoencoder's training")
    making.add_argument("--denoising", type=int, default=2600, help="steps of the denoiser's training")
    making.add_argument("--seed", type=int, default=0)
    checking = commands.add_parser("check", help="have it draw, and name what it drew")
    checking.add_argument("folder", type=Path)
    checking.add_argument("--pictures", type=int, default=200)
    checking.add_argument("--show", type=Path, help="write the first 25 as one PNG")
    arguments = parser.parse_args()
    if arguments.command == "make":
        make(arguments.folder, arguments.pictures, arguments.steps, arguments.denoising, arguments.seed)
    elif not check(arguments.folder, arguments.pictures, arguments.show):
        sys.exit(1)


if __name__ == "__main__":
    main()
