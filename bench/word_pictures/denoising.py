"""Trains the denoiser: the velocity from pictures to noise, where words say what is drawn (Lipman et al. 2023)."""

import random
import time
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from agents.engines.torch_components.picture_denoiser import read_picture_denoiser
from bench.picture_reader.drawing import Drawn
from bench.word_pictures.parameters import Parameters
from templates_lib.models.config_fields import Fields

_BATCH, _RATE = 96, 2e-3
_WITHOUT = 0.1
"""Share of pictures that are learnt without words, for guidance."""
_KEPT = 0.995
"""Of the mean of late weights, from step to step: it is what is served."""
TABLE = "words.weight"


def packed(latents: torch.Tensor, patch: int) -> torch.Tensor:
    """(items, channels, height, width) → (items, rows, channels · patch²)"""
    items, channels, height, width = latents.shape
    squares = latents.reshape(items, channels, height // patch, patch, width // patch, patch)
    return squares.permute(0, 2, 4, 1, 3, 5).reshape(items, -1, channels * patch * patch)


def train_denoiser(
    config: dict[str, Any], words: Sequence[str], latents: torch.Tensor, drawn: Sequence[Drawn], steps: int, seed: int
) -> dict[str, torch.Tensor]:
    """Return its tensors and the table of words (`TABLE`). `latents`: of the pictures `drawn`, normalised."""
    torch.manual_seed(seed)
    choose, parameters, row = random.Random(seed), Parameters(seed), {word: n for n, word in enumerate(words, 1)}
    denoiser = read_picture_denoiser(Fields.of(config, ""), parameters)
    table = nn.Parameter(torch.randn(len(words) + 1, config["joint_attention_dim"]))
    rows = packed(latents, denoiser.patch)
    columns = latents.shape[-1] // denoiser.patch
    trained = [*parameters.held.values(), table]
    kept = [deepcopy(each.data) for each in trained]
    optimiser = torch.optim.AdamW(trained, lr=_RATE, weight_decay=0.0, betas=(0.9, 0.99))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, _RATE, total_steps=steps, pct_start=0.1)
    began_s = time.perf_counter()
    for step in range(steps):
        chosen = torch.randint(len(rows), (_BATCH,))
        said = [[0] if choose.random() < _WITHOUT else _said(drawn[n], row, choose) for n in chosen.tolist()]
        text = pad_sequence([table[each] for each in said], batch_first=True)
        is_text = torch.arange(text.shape[1]) < torch.tensor([len(each) for each in said])[:, None]
        clean, noise, sigma = rows[chosen], torch.randn_like(rows[chosen]), torch.sigmoid(torch.randn(_BATCH))
        noisy = (1 - sigma)[:, None, None] * clean + sigma[:, None, None] * noise
        loss = functional.mse_loss(denoiser(noisy, sigma, text, is_text, columns), noise - clean)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(trained, 1.0)
        optimiser.step()
        schedule.step()
        with torch.no_grad():
            share = min(_KEPT, (1 + step) / (10 + step))
            for held, each in zip(kept, trained, strict=True):
                held.lerp_(each, 1 - share)
        if step % 50 == 0 or step == steps - 1:
            print(f"denoiser {step:4}: loss {loss.item():.4f}, {time.perf_counter() - began_s:.0f} s", flush=True)
    return dict(zip([*parameters.held, TABLE], kept, strict=True))


def _said(picture: Drawn, row: dict[str, int], choose: random.Random) -> list[int]:
    """Rows of words that ask for a picture."""
    asked = [picture.colour, picture.shape]
    if choose.random() < 0.5:
        asked.insert(0, "a")
    return [row[word] for word in asked]
