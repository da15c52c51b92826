"""Trains the autoencoder: an encoder that is thrown away afterwards, and the decoder that is served."""

import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from agents.engines.torch_components.picture_decoder import read_picture_decoder
from bench.word_pictures.parameters import Parameters
from templates_lib.models.config_fields import Fields

_BATCH, _RATE = 32, 2e-3
_NOISE = 0.05
"""Added to latents, so that near ones are near pictures."""


def encoder(channels: int) -> nn.Module:
    """(items, 3, side, side) → (items, channels, side / 8, side / 8)"""
    widths, layers = (16, 32, 48), list[nn.Module]()
    before = 3
    for width in widths:
        layers += [nn.Conv2d(before, width, 3, 2, 1), nn.SiLU(), nn.Conv2d(width, width, 3, padding=1), nn.SiLU()]
        before = width
    return nn.Sequential(*layers, nn.Conv2d(before, channels, 3, padding=1))


def train_autoencoder(
    config: dict[str, Any], pixels: torch.Tensor, steps: int, seed: int
) -> tuple[Parameters, torch.Tensor, dict[str, Sequence[float]]]:
    """`pixels`: (pictures, 3, side, side) from -1 to 1. Return the decoder's parameters, the normalised latents of all
    pictures, and by what they were normalised."""
    torch.manual_seed(seed)
    channels = int(config["z_dim"])
    plain = {"latents_mean": [0.0] * channels, "latents_std": [1.0] * channels}
    parameters = Parameters(seed)
    decoder, reads = read_picture_decoder(Fields.of(config | plain, ""), parameters), encoder(channels)
    trained = [*parameters.held.values(), *reads.parameters()]
    optimiser = torch.optim.AdamW(trained, lr=_RATE, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, _RATE, total_steps=steps, pct_start=0.1)
    began_s = time.perf_counter()
    for step in range(steps):
        batch = pixels[torch.randint(len(pixels), (_BATCH,))]
        latents = reads(batch)
        rows = latents + _NOISE * torch.randn_like(latents)
        for layer in decoder.layers:  # not cut off at white and black, which would have no gradient
            rows = layer(rows)
        # What a place is like matters, and that no latent grows without end.
        loss = functional.l1_loss(rows, batch) + functional.mse_loss(rows, batch) + 1e-3 * latents.square().mean()
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(trained, 1.0)
        optimiser.step()
        schedule.step()
        if step % 50 == 0 or step == steps - 1:
            print(f"autoencoder {step:4}: loss {loss.item():.4f}, {time.perf_counter() - began_s:.0f} s", flush=True)
    with torch.no_grad():
        latents = torch.cat([reads(batch) for batch in pixels.split(256)])
    mean, deviation = latents.mean((0, 2, 3)), latents.std((0, 2, 3))
    normalised = (latents - mean[:, None, None]) / deviation[:, None, None]
    return parameters, normalised, {"latents_mean": mean.tolist(), "latents_std": deviation.tolist()}
