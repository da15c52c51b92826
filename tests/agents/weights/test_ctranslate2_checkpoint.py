"""A Whisper in CTranslate2's format gives the published tensors under the published names; damaged files are
refused."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel, WhisperForConditionalGeneration

from agents.engines.torch_engine.decoder_config import decoder_config
from agents.weights.ctranslate2_checkpoint import Ctranslate2Checkpoint
from agents.weights.errors import CorruptWeightsError, MissingWeightsError, WeightsError
from agents.weights.source import open_checkpoint, record_checksums
from tests.agents.engines.components.tiny_graphs import LAYERS, VOCABULARY, WHISPER
from tests.agents.weights.ctranslate2_files import Array, halves, stored_arrays, weights_of, write_ctranslate2


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    torch.manual_seed(5)
    return WhisperForConditionalGeneration(WHISPER).eval()


@pytest.fixture(scope="module")
def arrays(model: PreTrainedModel) -> dict[str, Array]:
    return stored_arrays(model)


def test_tensors_are_those_converted(tmp_path: Path, model: PreTrainedModel, arrays: dict[str, Array]) -> None:
    write_ctranslate2(tmp_path, halves(arrays))
    checkpoint = open_checkpoint(tmp_path)
    weights = weights_of(model)
    assert set(checkpoint.names) == set(weights)
    for name, tensor in weights.items():
        assert checkpoint.shape(name) == tuple(tensor.shape)
        assert checkpoint.stored_bytes(name) == 2 * tensor.numel()
        torch.testing.assert_close(checkpoint.read(name), tensor.half(), rtol=0, atol=0)
    rows, matrix = torch.tensor([3, 0, 3]), "model.decoder.layers.2.self_attn.v_proj.weight"
    torch.testing.assert_close(checkpoint.read_rows(matrix, rows), weights[matrix].half()[rows], rtol=0, atol=0)


def test_sizes_are_read_from_tensors(tmp_path: Path, arrays: dict[str, Array]) -> None:
    write_ctranslate2(tmp_path, arrays)
    config = open_checkpoint(tmp_path).config
    assert config["encoder_layers"] == WHISPER.encoder_layers
    assert config["encoder_attention_heads"] == WHISPER.encoder_attention_heads
    decoder = decoder_config(config)
    assert (decoder.layers, decoder.heads, decoder.ffn_width) == (LAYERS, 4, 96)
    assert (decoder.vocab_size, decoder.max_context_tokens, decoder.encoded_tokens) == (VOCABULARY, 48, 50)
    assert decoder.stop_token_ids == (VOCABULARY - 1,)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.01, 0.5, 0.999])
def test_a_file_that_ends_early_is_refused(tmp_path: Path, arrays: dict[str, Array], share: float) -> None:
    write_ctranslate2(tmp_path, arrays)
    file = tmp_path / "model.bin"
    aliases = 100
    file.write_bytes(file.read_bytes()[: int(share * (file.stat().st_size - aliases))])
    with pytest.raises(CorruptWeightsError):
        open_checkpoint(tmp_path)


def test_a_changed_byte_is_found_by_its_checksum(tmp_path: Path, arrays: dict[str, Array]) -> None:
    write_ctranslate2(tmp_path, arrays)
    record_checksums(tmp_path)
    file = tmp_path / "model.bin"
    raw = bytearray(file.read_bytes())
    place = raw.index(arrays["encoder/layer_1/ffn/linear_0/weight"].tobytes())
    raw[place] ^= 1
    file.write_bytes(raw)
    checkpoint = open_checkpoint(tmp_path)
    checkpoint.read("model.encoder.layers.0.fc1.weight")
    with pytest.raises(CorruptWeightsError):
        checkpoint.read("model.encoder.layers.1.fc1.weight")


def test_what_is_not_a_whisper_is_refused(tmp_path: Path, arrays: dict[str, Array]) -> None:
    write_ctranslate2(tmp_path / "other", arrays, spec="TransformerSpec")
    write_ctranslate2(tmp_path / "newer", arrays, version=7)
    write_ctranslate2(tmp_path / "part", {k: a for k, a in arrays.items() if not k.startswith("decoder/")})
    for name in ("other", "newer", "part"):
        with pytest.raises(WeightsError):
            open_checkpoint(tmp_path / name)
    with pytest.raises(MissingWeightsError):
        Ctranslate2Checkpoint(tmp_path)


def test_quantised_matrices_and_unknown_names_are_refused(tmp_path: Path, arrays: dict[str, Array]) -> None:
    stored = "encoder/layer_0/ffn/linear_0/weight"
    write_ctranslate2(tmp_path, arrays | {stored: arrays[stored].astype(np.int8)})
    checkpoint = open_checkpoint(tmp_path)
    with pytest.raises(WeightsError):
        checkpoint.read("model.encoder.layers.0.fc1.weight")
    with pytest.raises(MissingWeightsError):
        checkpoint.read("model.encoder.layers.0.fc3.weight")
