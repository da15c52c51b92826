"""The vocoder of Qwen2.5-Omni: its sound is that of transformers, whatever is in the batch."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel, Qwen2_5OmniToken2WavConfig, Qwen2_5OmniToken2WavModel

from agents.engines.components.codes import CodecUnit, Voice
from agents.engines.components.protocol import GeneratorEngine
from agents.engines.errors import BadBatchError, OutOfMemoryError
from agents.engines.torch_components.engine import TorchGenerator, load_torch_generator
from agents.engines.torch_components.loading import Limits
from agents.weights.checkpoint import Checkpoint
from agents.weights.part import PartOfCheckpoint
from agents.weights.source import open_checkpoint
from tests.agents.engines.components.graph_requests import noise
from tests.agents.engines.pipelines import DEVICE

CONFIG = Qwen2_5OmniToken2WavConfig(
    # Blocks of 6 frames, which units end amid.
    dit_config={
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "head_dim": 16,
        "emb_dim": 12,
        "block_size": 6,
        "look_ahead_layers": [1],
        "look_backward_layers": [0, 2],
        "num_embeds": 40,
        "mel_dim": 10,
        "enc_emb_dim": 8,
        "enc_dim": 6,
        "enc_channels": [8, 8, 8, 16],
        "enc_kernel_sizes": [5, 3, 3, 1],
        "enc_dilations": [1, 2, 3, 1],
        "enc_attention_channels": 4,
        "enc_res2net_scale": 2,
        "enc_se_channels": 4,
    },
    bigvgan_config={
        "mel_dim": 10,
        "upsample_initial_channel": 16,
        "resblock_kernel_sizes": [3, 5],
        "resblock_dilation_sizes": [[1, 3, 5], [1, 2, 3]],
        "upsample_rates": [5, 2],
        "upsample_kernel_sizes": [11, 4],
    },
)
SAMPLES = 2 * 5 * 2


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    torch.manual_seed(6)
    made = Qwen2_5OmniToken2WavModel(CONFIG).eval()
    for name, parameter in made.named_parameters():
        if parameter.dim() == 1:  # biases, and the activations' own, which begin as zeros
            parameter.data = 0.2 * torch.randn(parameter.shape)
        elif "proj_out" in name or "modulation" in name:
            parameter.data *= 3
    return made


@pytest.fixture(scope="module")
def checkpoint(model: PreTrainedModel, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """As it is a part of the whole model."""
    folder: Path = tmp_path_factory.mktemp("token2wav")
    model.save_pretrained(folder)
    saved = open_checkpoint(folder)
    config = {"model_type": "qwen2_5_omni", "token2wav_config": saved.config}
    return PartOfCheckpoint(saved, config, {f"token2wav.{name}": name for name in saved.names})


@pytest.fixture
def engine(checkpoint: Checkpoint) -> TorchGenerator:
    return load_torch_generator(checkpoint, "vocoder", torch.float32, DEVICE)


def unit(name: str, codes: int, seed: int, frames: int = 11) -> CodecUnit:
    voice = Voice(noise((8,), seed), noise((frames, 10), seed + 1))
    return CodecUnit(name, np.random.default_rng(seed).integers(0, 40, codes), voice, seed)


def by_transformers(model: PreTrainedModel, unit: CodecUnit) -> np.ndarray:
    torch.manual_seed(unit.seed)
    voice = unit.voice
    sound = model(
        torch.from_numpy(unit.codes)[None], torch.from_numpy(voice.embedding)[None], torch.from_numpy(voice.mel)[None]
    )
    return sound.numpy()


@torch.inference_mode()
def test_sound_is_that_of_transformers_alone_and_together(model: PreTrainedModel, engine: GeneratorEngine) -> None:
    units = [unit("long", 17, 1), unit("one", 1, 2, 30), unit("short", 7, 3)]
    for own, together in zip(units, engine.generate(units), strict=True):
        expected = by_transformers(model, own)
        assert together.shape == (engine.facts.takes.samples_out(own),) == (SAMPLES * len(own.codes),)
        assert np.abs(expected).max() > 1e-3
        np.testing.assert_allclose(together, expected, rtol=0, atol=1e-4)
        np.testing.assert_allclose(engine.generate([own])[0], expected, rtol=0, atol=1e-4)


def test_facts_are_those_of_the_checkpoint(model: PreTrainedModel, engine: GeneratorEngine) -> None:
    facts = engine.facts
    assert facts.weight_bytes == facts.loaded_bytes == 4 * sum(each.numel() for each in model.parameters())
    assert facts.takes.rows_in(unit("a", 5, 1)) == 20
    (sound,) = engine.generate([facts.takes.example(3, 1)])
    assert sound.shape == (3 * SAMPLES,)


def test_bad_batches_are_refused(engine: TorchGenerator, checkpoint: Checkpoint) -> None:
    good = unit("a", 5, 1)
    voice = good.voice
    for batch in (
        [],
        [good, good],
        [replace(good, codes=good.codes[:0])],
        [replace(good, codes=good.codes + 41)],
        [replace(good, codes=good.codes.astype(np.float32))],
        [replace(good, seed=-1)],
        [replace(good, voice=replace(voice, mel=voice.mel[:2]))],
        [replace(good, voice=replace(voice, mel=voice.mel[:, :9]))],
        [replace(good, voice=replace(voice, mel=voice.mel * np.float32(np.inf)))],
        [replace(good, voice=replace(voice, embedding=voice.embedding[:7]))],
    ):
        with pytest.raises(BadBatchError):
            engine.generate(batch)
    narrow = load_torch_generator(checkpoint, "vocoder", torch.float32, DEVICE, Limits(most_rows=19))
    with pytest.raises(BadBatchError):
        narrow.generate([good])
    with pytest.raises(OutOfMemoryError):
        load_torch_generator(checkpoint, "vocoder", torch.float32, DEVICE, Limits(memory_bytes=1000))
    engine.close()
    with pytest.raises(BadBatchError):
        engine.generate([good])
