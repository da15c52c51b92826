"""Every encoder engine: its rows are those of transformers, whatever is in the batch, and it refuses what it must."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel, WhisperFeatureExtractor

from agents.engines.components.protocol import EncoderEngine
from agents.engines.components.unit import EncoderUnit
from agents.engines.errors import BadBatchError, OutOfMemoryError
from agents.engines.torch_components.engine import load_torch_encoder
from agents.engines.torch_components.loading import Limits
from agents.engines.torch_components.log_mel import mel_filters
from agents.weights.checkpoint import Checkpoint
from agents.weights.meter import MeteredCheckpoint
from agents.weights.source import open_checkpoint
from templates_lib.models.config_fields import UnsupportedModelError
from tests.agents.engines.components.graph_requests import noise
from tests.agents.engines.components.split_model import load_encoder
from tests.agents.engines.components.tiny_graphs import WHISPER, save_graph
from tests.agents.engines.pipelines import DEVICE
from tests.agents.engines.tiny_models import save_random

Made = Callable[[str], tuple[Checkpoint, PreTrainedModel]]
Reference = Callable[[PreTrainedModel, EncoderUnit], torch.Tensor]


def whisper_rows(model: PreTrainedModel, unit: EncoderUnit) -> torch.Tensor:
    bands = WhisperFeatureExtractor(chunk_length=WHISPER.max_source_positions // 50)(
        unit.values, sampling_rate=16_000, return_tensors="pt"
    ).input_features
    return model.model.encoder(bands).last_hidden_state[0]


def qwen_rows(model: PreTrainedModel, unit: EncoderUnit) -> torch.Tensor:
    return model.model.visual(torch.from_numpy(unit.values), grid_thw=torch.tensor([unit.grid])).pooler_output


def intern_rows(model: PreTrainedModel, unit: EncoderUnit) -> torch.Tensor:
    return model.model.get_image_features(torch.from_numpy(unit.values)).pooler_output.flatten(0, 1)


def omni_rows(model: PreTrainedModel, unit: EncoderUnit) -> torch.Tensor:
    heard = WhisperFeatureExtractor(feature_size=80, chunk_length=2)(
        unit.values, sampling_rate=16_000, return_tensors="pt", return_attention_mask=True
    )
    found = model.thinker.get_audio_features(heard.input_features, heard.attention_mask)
    return found.last_hidden_state


def omni_vision_rows(model: PreTrainedModel, unit: EncoderUnit) -> torch.Tensor:
    return model.thinker.visual(torch.from_numpy(unit.values), grid_thw=torch.tensor([unit.grid])).pooler_output


def dino_rows(model: PreTrainedModel, unit: EncoderUnit) -> torch.Tensor:
    return model(torch.from_numpy(unit.values)[None]).last_hidden_state[0]


TOO_LONG = np.zeros(300 * 16_000 + 1, np.float32)
TILES = [EncoderUnit("one", noise((1, 3, 28, 28), 0)), EncoderUnit("three", noise((3, 3, 28, 28), 1))]
ENCODERS: dict[str, tuple[Reference, list[EncoderUnit]]] = {
    "whisper": (
        whisper_rows,
        [
            EncoderUnit("short", noise((300,), 0) * np.float32(0.1)),
            EncoderUnit("silent", np.zeros(5000, np.float32)),
            EncoderUnit("whole", noise((16_000,), 1) * np.float32(0.1)),
        ],
    ),
    "qwen-vl": (
        qwen_rows,
        [
            EncoderUnit("image", noise((60, 96), 0), (1, 6, 10)),
            EncoderUnit("least", noise((4, 96), 1), (1, 2, 2)),
            EncoderUnit("video", noise((3 * 6 * 4, 96), 2), (3, 6, 4)),
        ],
    ),
    "omni": (omni_vision_rows, [EncoderUnit("image", noise((60, 96), 0), (1, 6, 10))]),
    "omni-hearing": (
        omni_rows,
        [
            EncoderUnit("short", noise((321,), 0) * np.float32(0.1)),
            EncoderUnit("windows", noise((2 * 3200,), 1) * np.float32(0.1)),
            EncoderUnit("loud at its end", (noise((12_345,), 2) * np.linspace(0, 0.3, 12_345)).astype(np.float32)),
            EncoderUnit("odd", noise((3200 + 160 * 5 - 3,), 3) * np.float32(0.1)),
        ],
    ),
    "internvl": (intern_rows, TILES),
    "internvl-large": (intern_rows, TILES),
    "dinov2": (
        dino_rows,
        [
            EncoderUnit("learned", noise((3, 28, 28), 0)),
            EncoderUnit("wide", noise((3, 14, 42), 1)),
            EncoderUnit("patch", noise((3, 7, 7), 2)),
        ],
    ),
}
each_encoder = pytest.mark.parametrize("name", ENCODERS)


def with_values(unit: EncoderUnit, values: object) -> EncoderUnit:
    return replace(unit, values=values)


@each_encoder
@torch.inference_mode()
def test_rows_are_those_of_transformers_alone_and_together(tiny_graph: Made, name: str) -> None:
    checkpoint, model = tiny_graph(name.removesuffix("-hearing"))
    rows_of, units = ENCODERS[name]
    engine = load_encoder(checkpoint, name)
    together = engine.encode(units)
    for unit, rows in zip(units, together, strict=True):
        expected = rows_of(model, unit).numpy()
        assert rows.dtype == np.float32
        np.testing.assert_allclose(rows, expected, rtol=0, atol=1e-5)
        np.testing.assert_allclose(engine.encode([unit])[0], expected, rtol=0, atol=1e-5)


@each_encoder
def test_shapes_are_known_without_the_model(tiny_graph: Made, name: str) -> None:
    """What a queue counts, and what a profile makes."""
    engine: EncoderEngine = load_encoder(tiny_graph(name.removesuffix("-hearing"))[0], name)
    facts = engine.facts
    units = [*ENCODERS[name][1], *(facts.takes.example(size, size) for size in (1, 2, 6))]
    for unit, rows in zip(units, engine.encode(units), strict=True):
        assert rows.shape == (facts.takes.rows_out(unit), facts.row_width)
    assert facts.takes.rows_in(units[-1]) >= facts.takes.rows_in(units[-2])


@each_encoder
def test_bad_batches_are_refused(tiny_graph: Made, name: str) -> None:
    facts_of = load_encoder(tiny_graph(name.removesuffix("-hearing"))[0], name)
    unit = ENCODERS[name][1][0]
    damaged = unit.values.copy()
    damaged.flat[0] = np.nan
    for batch in (
        [],
        [unit, unit],
        [replace(unit, id=str(i)) for i in range(facts_of.facts.most_units + 1)],
        [with_values(unit, damaged)],
        [with_values(unit, unit.values.astype(np.float64))],
        [with_values(unit, TOO_LONG if unit.values.ndim == 1 else unit.values[..., :-1])],
        [with_values(unit, unit.values[:0])],
        [with_values(unit, unit.values[None])],
    ):
        with pytest.raises(BadBatchError):
            facts_of.encode(batch)
    facts_of.close()
    with pytest.raises(BadBatchError):
        facts_of.encode([unit])


@pytest.mark.parametrize("grid", [None, (1, 6, 9), (0, 6, 10), (1, 10, 6 << 20), (2, 6, 10)])
def test_a_grid_fits_its_patches(tiny_graph: Made, grid: tuple[int, int, int] | None) -> None:
    unit = ENCODERS["qwen-vl"][1][0]
    with pytest.raises(BadBatchError):
        load_encoder(tiny_graph("qwen-vl")[0], "qwen-vl").encode([replace(unit, grid=grid)])


@each_encoder
def test_an_encoder_reads_its_own_tensors_and_states_their_memory(tiny_graph: Made, name: str) -> None:
    checkpoint, model = tiny_graph(name.removesuffix("-hearing"))
    metered = MeteredCheckpoint(checkpoint)
    facts = load_encoder(metered, name).facts
    assert not any(part in each for each in metered.reading.names for part in ("decoder", "embed_tokens", "lm_head"))
    parts = {
        "whisper": lambda: [model.model.encoder],
        "qwen-vl": lambda: [model.model.visual],
        "omni": lambda: [model.thinker.visual],
        "omni-hearing": lambda: [model.thinker.audio_tower],
        "dinov2": lambda: [model.embeddings.patch_embeddings, model.encoder, model.layernorm],
    }
    held = parts.get(name, lambda: [model.model.vision_tower, model.model.multi_modal_projector])()
    counted = 4 * sum(parameter.numel() for part in held for parameter in part.parameters())
    if name == "dinov2":  # a token that training puts in place of hidden patches is not read
        counted += 4 * (model.embeddings.cls_token.numel() + model.embeddings.position_embeddings.numel())
    if name == "omni-hearing":  # two rows that only the processor of older releases put into prompts
        counted -= 4 * model.thinker.audio_tower.audio_bos_eos_token.weight.numel()
    assert facts.weight_bytes == facts.loaded_bytes == counted
    component = facts.component
    need = facts.weight_bytes + 100 * facts.row_bytes
    load_torch_encoder(checkpoint, component, torch.float32, DEVICE, Limits(most_rows=100, memory_bytes=need))
    with pytest.raises(OutOfMemoryError):
        load_torch_encoder(checkpoint, component, torch.float32, DEVICE, Limits(most_rows=101, memory_bytes=need))
    smallest = facts.takes.rows_in(facts.takes.example(1, 0))
    fitting = Limits(memory_bytes=facts.weight_bytes + smallest * facts.row_bytes, takes_fewer=True)
    assert load_torch_encoder(checkpoint, component, torch.float32, DEVICE, fitting).facts.most_rows == smallest
    too_small = Limits(memory_bytes=facts.weight_bytes + (smallest - 1) * facts.row_bytes, takes_fewer=True)
    with pytest.raises(OutOfMemoryError, match="smallest"):
        load_torch_encoder(checkpoint, component, torch.float32, DEVICE, too_small)


def test_a_batch_has_a_bound_of_rows(tiny_graph: Made) -> None:
    engine = load_torch_encoder(tiny_graph("qwen-vl")[0], "vision", torch.float32, DEVICE, Limits(most_rows=63))
    image, least, _ = ENCODERS["qwen-vl"][1]
    assert len(engine.encode([image])) == 1
    with pytest.raises(BadBatchError):
        engine.encode([image, least])


def test_a_component_that_is_not_known_is_named(tiny_graph: Made) -> None:
    checkpoint, _ = tiny_graph("whisper")
    with pytest.raises(UnsupportedModelError, match="'vision' of 'whisper'"):
        load_torch_encoder(checkpoint, "vision", torch.float32, DEVICE)


@pytest.mark.parametrize("bands", [80, 128])
def test_mel_bands_are_those_of_whisper(bands: int) -> None:
    expected = WhisperFeatureExtractor(feature_size=bands).mel_filters.T
    np.testing.assert_allclose(mel_filters(bands), expected, rtol=0, atol=1e-7)


def test_weights_are_known_by_what_they_are_wherever_they_lie(tiny_graph: Made, tmp_path: Path) -> None:
    def fingerprint(checkpoint: Checkpoint) -> str:
        return load_encoder(checkpoint, "dinov2").facts.fingerprint

    checkpoint, _ = tiny_graph("dinov2")
    model = save_graph("dinov2", tmp_path / "same")
    save_random(model, tmp_path / "other", seed=99)
    assert fingerprint(open_checkpoint(tmp_path / "same")) == fingerprint(checkpoint)
    assert fingerprint(open_checkpoint(tmp_path / "other")) != fingerprint(checkpoint)
