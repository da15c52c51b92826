"""A DINOv2 in an ONNX file gives the published tensors under the published names; damaged files are refused."""

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import Dinov2Config, Dinov2Model, PreTrainedModel

from agents.engines.components.unit import EncoderUnit
from agents.engines.torch_components.engine import load_torch_encoder
from agents.weights.errors import CorruptWeightsError, MissingWeightsError, WeightsError
from agents.weights.onnx_checkpoint import OnnxCheckpoint
from agents.weights.source import open_checkpoint, record_checksums
from tests.agents.weights.onnx_files import field, tensor, write_onnx

CONFIG = Dinov2Config(
    hidden_size=128, num_hidden_layers=2, num_attention_heads=2, mlp_ratio=2, image_size=28, patch_size=7
)


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    torch.manual_seed(8)
    made = Dinov2Model(CONFIG).eval()
    for parameter in made.parameters():
        if parameter.dim() == 1:
            parameter.data = parameter.data + 0.3 * torch.randn(parameter.shape)
    return made


@pytest.mark.parametrize("packs", [True, False])
@torch.inference_mode()
def test_its_rows_are_those_of_the_exported_model(tmp_path: Path, model: PreTrainedModel, packs: bool) -> None:
    write_onnx(tmp_path / "m.onnx", model, packs=packs)
    checkpoint = open_checkpoint(tmp_path / "m.onnx")
    weights = {name: weight for name, weight in model.state_dict().items() if name != "embeddings.mask_token"}
    assert set(checkpoint.names) == set(weights)
    for name, weight in weights.items():
        assert checkpoint.shape(name) == tuple(weight.shape)
        assert checkpoint.stored_bytes(name) == weight.nbytes
        torch.testing.assert_close(checkpoint.read(name), weight, rtol=0, atol=0)
    pixels = np.random.default_rng(1).standard_normal((3, 14, 35), dtype=np.float32)
    engine = load_torch_encoder(checkpoint, "vision", torch.float32, torch.device("cpu"))
    (rows,) = engine.encode([EncoderUnit("a", pixels)])
    expected = model(torch.from_numpy(pixels)[None]).last_hidden_state[0]
    np.testing.assert_allclose(rows, expected.numpy(), rtol=0, atol=1e-5)


@given(st.floats(0, 0.999), st.integers(0, 255))
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damaged_files_are_refused_or_read(tmp_path: Path, model: PreTrainedModel, share: float, byte: int) -> None:
    """A file that ends early is refused; a changed byte may be one of a weight, and never does anything else."""
    path = tmp_path / "m.onnx"
    write_onnx(path, model)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(CorruptWeightsError):
        OnnxCheckpoint(path)
    place = int(share * 4000)
    path.write_bytes(whole[:place] + bytes([byte]) + whole[place + 1 :])
    with suppress(WeightsError):
        OnnxCheckpoint(path)


def test_a_changed_weight_is_found_by_its_checksum(tmp_path: Path, model: PreTrainedModel) -> None:
    path = tmp_path / "m.onnx"
    write_onnx(path, model)
    record_checksums(path)
    raw = bytearray(path.read_bytes())
    raw[raw.index(model.layernorm.weight.detach().numpy().tobytes())] ^= 1
    path.write_bytes(raw)
    checkpoint = open_checkpoint(path)
    checkpoint.read("layernorm.bias")
    with pytest.raises(CorruptWeightsError):
        checkpoint.read("layernorm.weight")


def test_other_models_and_names_are_refused(tmp_path: Path, model: PreTrainedModel) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(field(7, tensor("conv.weight", np.zeros((2, 3), np.float32), packs=True)))
    with pytest.raises(WeightsError):
        open_checkpoint(path)
    write_onnx(path, model)
    with pytest.raises(MissingWeightsError):
        open_checkpoint(path).read("encoder.layer.9.norm1.weight")
