"""Generators that an executor can be of: one registry."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from agents.engines.components.stepped import SteppedEngine
from agents.engines.speech.kokoro import load_kokoro
from agents.engines.torch_components.loading import Limits
from agents.engines.torch_components.word_pictures import COMPONENT, FAMILY, load_word_pictures
from agents.weights.safetensors_checkpoint import CONFIG
from agents.weights.source import open_checkpoint


@dataclass(frozen=True, slots=True)
class Place:
    """Where a generator computes, and in which numbers."""

    device: torch.device
    dtype: torch.dtype


Load = Callable[[Path, str, Place, Limits], SteppedEngine]
"""Of a checkpoint's folder and the component's name. Raises EngineError, WeightsError, UnsupportedModelError."""


def _kokoro(folder: Path, component: str, _place: Place, limits: Limits) -> SteppedEngine:
    return load_kokoro(folder, component, torch.get_num_threads(), limits.memory_bytes)


def _word_pictures(folder: Path, _component: str, place: Place, limits: Limits) -> SteppedEngine:
    return load_word_pictures(open_checkpoint(folder), place.dtype, place.device, limits)


GENERATORS: dict[tuple[str, str], Load] = {
    ("kokoro", "voice"): _kokoro,
    ("style_text_to_speech_2", "voice"): _kokoro,
    (FAMILY, COMPONENT): _word_pictures,
}
"""(`model_type` of config.json, component of the model's graph) → what loads it. Kokoro's second name is that of its
conversions for onnxruntime."""


def loader_of(folder: Path, component: str) -> Load | None:
    """None: the component of the checkpoint is no generator that is known here."""
    try:
        config = json.loads((folder / CONFIG).read_bytes())
    except (OSError, ValueError):
        return None  # other kinds of checkpoints have no such file; who opens them says what is wrong
    family = config.get("model_type") if isinstance(config, dict) else None
    return GENERATORS.get((str(family), component))
