"""Requests with images and sound, as the whole model of transformers answers them, and as split ones are given them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel, WhisperFeatureExtractor

from agents.engines.components.unit import EncoderUnit, Grid
from agents.engines.grid_positions import GridSpan
from tests.agents.engines.components.tiny_graphs import AUDIO_TOKEN, IMAGE_TOKEN, QWEN_VL, VIDEO_TOKEN, WHISPER

MERGE = QWEN_VL.vision_config.spatial_merge_size


@dataclass(frozen=True)
class GraphRequest:
    prompt: list[int]
    units: list[EncoderUnit]
    """For the encoder, of images where there are two."""
    whole: Callable[[torch.Tensor], Any]
    """The whole model: (1, tokens) → its output with `logits`."""
    grids: tuple[GridSpan, ...] = ()
    places: tuple[int, ...] = ()
    """The first token that each unit's rows stand for; empty: they are attended to."""
    sounds: list[EncoderUnit] = field(default_factory=list)
    """For the encoder of sound beside that of images."""
    sound_places: tuple[int, ...] = ()


def noise(shape: tuple[int, ...], seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def text(seed: int, length: int) -> list[int]:
    return np.random.default_rng(seed).integers(4, 80, length).tolist()


def text_request(model: PreTrainedModel, seed: int, length: int = 30) -> GraphRequest:
    return GraphRequest(text(seed, length), [], lambda ids: model(input_ids=ids))


def qwen_request(
    model: PreTrainedModel, seed: int, grids: tuple[Grid, ...] = ((1, 6, 10), (1, 4, 4)), token: int = IMAGE_TOKEN
) -> GraphRequest:
    """Text around images, or videos, of these grids of patches."""
    prompt, spans, units = text(seed, 5), [], []
    for i, (frames, rows, columns) in enumerate(grids):
        span = GridSpan(len(prompt), frames, rows // MERGE, columns // MERGE)
        spans.append(span)
        prompt += [token] * span.tokens + text(seed + i, 6)
        values = noise((frames * rows * columns, 3 * 2 * QWEN_VL.vision_config.patch_size**2), seed + i)
        units.append(EncoderUnit(f"{seed} {i}", values, (frames, rows, columns)))
    pixels = torch.from_numpy(np.concatenate([unit.values for unit in units]))
    kind = "_videos" if token == VIDEO_TOKEN else ""
    grid = "video_grid_thw" if token == VIDEO_TOKEN else "image_grid_thw"

    def whole(ids: torch.Tensor) -> Any:
        types = (ids == IMAGE_TOKEN).int() + 2 * (ids == VIDEO_TOKEN).int()
        apart = {"second_per_grid_ts": [1] * len(grids)} if kind else {}  # a position from frame to frame
        return model(
            input_ids=ids,
            **{f"pixel_values{kind}": pixels, grid: torch.tensor(grids)},
            mm_token_type_ids=types,
            **apart,
        )

    return GraphRequest(prompt, units, whole, tuple(spans), tuple(span.first_token for span in spans))


def intern_request(model: PreTrainedModel, seed: int, tiles: tuple[int, ...] = (3, 1)) -> GraphRequest:
    prompt, places, units = text(seed, 4), [], []
    for i, count in enumerate(tiles):
        places.append(len(prompt))
        prompt += [IMAGE_TOKEN] * (4 * count) + text(seed + i, 5)
        units.append(EncoderUnit(f"{seed} {i}", noise((count, 3, 28, 28), seed + i)))
    pixels = torch.from_numpy(np.concatenate([unit.values for unit in units]))
    return GraphRequest(prompt, units, lambda ids: model(input_ids=ids, pixel_values=pixels), places=tuple(places))


def sound_request(model: PreTrainedModel, seed: int, samples: int = 11_000) -> GraphRequest:
    sound = noise((samples,), seed) * np.float32(0.1)
    seconds = WHISPER.max_source_positions // 50
    bands = WhisperFeatureExtractor(feature_size=WHISPER.num_mel_bins, chunk_length=seconds)(
        sound, sampling_rate=16_000, return_tensors="pt"
    ).input_features
    prompt = [3, *text(seed, 3)]
    return GraphRequest(
        prompt, [EncoderUnit(f"{seed}", sound)], lambda ids: model(input_features=bands, decoder_input_ids=ids)
    )


def omni_request(model: PreTrainedModel, seed: int, samples: tuple[int, ...] = (9_000, 700)) -> GraphRequest:
    """An image, then sounds, in one prompt."""
    grid = (1, 6, 8)
    image = EncoderUnit(f"{seed} image", noise((grid[1] * grid[2], 3 * 2 * 4 * 4), seed), grid)
    span = GridSpan(7, 1, grid[1] // MERGE, grid[2] // MERGE)
    prompt = [*text(seed, 6), 92, *[IMAGE_TOKEN] * span.tokens, 93, *text(seed + 1, 3)]
    places, sounds = [], []
    for i, count in enumerate(samples):
        sounds.append(EncoderUnit(f"{seed} {i}", noise((count,), seed + i) * np.float32(0.1)))
        frames = -(-count // 160)
        prompt.append(94)
        places.append(len(prompt))
        prompt += [AUDIO_TOKEN] * (((frames - 1) // 2 - 1) // 2 + 1) + [95, *text(seed + 2 + i, 4)]
    heard = WhisperFeatureExtractor(feature_size=80, chunk_length=1)(
        [each.values for each in sounds], sampling_rate=16_000, return_tensors="pt", return_attention_mask=True
    )

    def whole(ids: torch.Tensor) -> Any:
        return model.thinker(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            pixel_values=torch.from_numpy(image.values),
            image_grid_thw=torch.tensor([grid]),
            input_features=heard.input_features,
            feature_attention_mask=heard.attention_mask,
        )

    return GraphRequest(prompt, [image], whole, (span,), (span.first_token,), sounds, tuple(places))


REQUESTS: dict[str, Callable[[PreTrainedModel, int], GraphRequest]] = {
    "qwen-vl": qwen_request,
    "internvl": intern_request,
    "omni": omni_request,
    "whisper": sound_request,
}
