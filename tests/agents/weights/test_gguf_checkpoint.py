"""GGUF files give the published tensors under the published names, and damaged ones are refused."""

from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.engines.torch_engine.decoder_config import decoder_config
from agents.weights.errors import CorruptWeightsError, MissingWeightsError, WeightsError
from agents.weights.gguf_checkpoint import GgufCheckpoint
from agents.weights.source import open_checkpoint, record_checksums
from templates_lib.models.config_fields import UnsupportedModelError
from tests.agents.weights.gguf_files import EXPERTS, HEADS, HIDDEN, KV_HEADS, VOCABULARY, write_gguf

LAYER = "model.layers.0."
ERROR_OF = {Kind.F32: 0.0, Kind.F16: 2e-3, Kind.BF16: 2e-2, Kind.Q8_0: 0.02, Kind.Q4_1: 0.25, Kind.Q5_0: 0.25}
"""Of a standard normal weight, by the format's step."""


@pytest.mark.parametrize("kind", ERROR_OF, ids=lambda kind: kind.name)
def test_every_storage_is_dequantised_within_its_step(tmp_path: Path, kind: Kind) -> None:
    written = write_gguf(tmp_path / "m.gguf", "qwen3", kind)
    checkpoint = open_checkpoint(tmp_path)
    for name, stored in (
        ("mlp.down_proj", "ffn_down"),
        ("self_attn.q_proj", "attn_q"),
        ("input_layernorm", "attn_norm"),
    ):
        read = checkpoint.read(f"{LAYER}{name}.weight").numpy()
        assert np.abs(read - written[f"blk.0.{stored}.weight"]).max() <= ERROR_OF[kind]
        rows = torch.tensor([3, 0, 3])
        assert (checkpoint.read_rows(f"{LAYER}{name}.weight", rows).numpy() == read[rows]).all()


def test_llama_rows_are_put_back_into_halves(tmp_path: Path) -> None:
    """llama.cpp's converter interleaves the two halves of each head: row 2i of a stored head is row i published."""
    written = write_gguf(tmp_path / "m.gguf", "llama", Kind.F32)
    checkpoint = open_checkpoint(tmp_path / "m.gguf")
    for name, heads in (("q", HEADS), ("k", KV_HEADS)):
        stored = written[f"blk.0.attn_{name}.weight"].reshape(heads, -1, HIDDEN)
        read = checkpoint.read(f"{LAYER}self_attn.{name}_proj.weight").numpy().reshape(stored.shape)
        half = stored.shape[1] // 2
        assert (read[:, :half] == stored[:, 0::2]).all()
        assert (read[:, half:] == stored[:, 1::2]).all()


def test_experts_come_one_by_one_out_of_their_stack(tmp_path: Path) -> None:
    written = write_gguf(tmp_path / "m.gguf", "qwen3moe", Kind.F32)
    checkpoint = open_checkpoint(tmp_path / "m.gguf")
    for expert in range(EXPERTS):
        name = f"{LAYER}mlp.experts.{expert}.down_proj.weight"
        assert (checkpoint.read(name).numpy() == written["blk.0.ffn_down_exps.weight"][expert]).all()
        assert checkpoint.stored_bytes(name) == written["blk.0.ffn_down_exps.weight"][expert].nbytes


def test_the_description_is_read_in_the_words_of_hugging_face(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf", "qwen3moe", Kind.Q8_0, vocabulary=5000)
    config = decoder_config(open_checkpoint(tmp_path / "m.gguf").config)
    assert (config.family, config.layers, config.vocab_size) == ("qwen3_moe", 1, VOCABULARY)
    assert (config.heads, config.kv_heads, config.head_dim) == (HEADS, KV_HEADS, HIDDEN // HEADS)
    assert config.experts is not None
    assert (config.experts.count, config.experts.active) == (EXPERTS, 2)
    assert config.tied_embeddings
    assert config.stop_token_ids == (2,)


def test_a_flipped_bit_is_refused_by_file_and_tensor(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    write_gguf(path, "llama", Kind.Q8_0)
    record_checksums(tmp_path)
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    checkpoint = open_checkpoint(path)
    damaged = []
    for name in checkpoint.names:
        try:
            checkpoint.read(name)
        except CorruptWeightsError as error:
            damaged.append(str(error))
    assert len(damaged) == 1
    assert "m.gguf" in damaged[0]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.floats(0, 1), flips=st.lists(st.tuples(st.floats(0, 0.03), st.integers(0, 255)), max_size=3))
def test_no_damage_to_the_head_gets_past_the_typed_errors(
    tmp_path: Path, cut: float, flips: list[tuple[float, int]]
) -> None:
    whole = tmp_path / "whole.gguf"
    if not whole.exists():
        write_gguf(whole, "llama", Kind.Q8_0)
    data = bytearray(whole.read_bytes())
    for at, value in flips:
        data[int(at * len(data))] = value
    path = tmp_path / "damaged.gguf"
    path.write_bytes(data[: max(1, int(cut * len(data)))])
    try:
        decoder_config(GgufCheckpoint(path).config)
    except (UnsupportedModelError, WeightsError) as error:
        named = isinstance(error, UnsupportedModelError) or "damaged.gguf" in str(error)
        assert named, error  # noqa: PT017


def test_an_empty_file_and_other_architectures_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "empty.gguf").touch()
    with pytest.raises(CorruptWeightsError, match=r"empty\.gguf"):
        GgufCheckpoint(tmp_path / "empty.gguf")
    write_gguf(tmp_path / "bert.gguf", "bert", Kind.F32)
    with pytest.raises(WeightsError, match=r"bert\.gguf: GGUF architecture 'bert'"):
        GgufCheckpoint(tmp_path / "bert.gguf")
    with pytest.raises(MissingWeightsError, match=r"bert\.gguf, empty\.gguf"):
        open_checkpoint(tmp_path)
