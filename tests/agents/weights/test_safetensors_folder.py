"""Any checkpoint can be written as the folder of safetensors that other programs load."""

from pathlib import Path

import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from transformers import AutoModelForCausalLM

from agents.weights import safetensors_folder
from agents.weights.checksums import read_checksums
from agents.weights.errors import CorruptWeightsError
from agents.weights.safetensors_checkpoint import SafetensorsCheckpoint
from agents.weights.safetensors_folder import write_safetensors_folder
from agents.weights.source import open_checkpoint
from tests.agents.weights.gguf_files import write_gguf


@pytest.mark.parametrize("architecture", ["llama", "qwen3moe"])
def test_a_gguf_file_becomes_the_model_that_transformers_loads(
    tmp_path: Path, architecture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_gguf(tmp_path / "m.gguf", architecture, Kind.Q8_0)
    source = open_checkpoint(tmp_path / "m.gguf")
    monkeypatch.setattr(safetensors_folder, "SHARD_BYTES", 40_000)
    write_safetensors_folder(source, tmp_path / "made", torch.float32)
    made = SafetensorsCheckpoint(tmp_path / "made")
    assert len(list(made.path.glob("*.safetensors"))) > 1
    assert set(made.names) == set(source.names) == set(read_checksums(made.path))
    assert all(torch.equal(made.read(name), source.read(name)) for name in source.names)
    loaded, report = AutoModelForCausalLM.from_pretrained(made.path, output_loading_info=True)
    assert not report["unexpected_keys"]
    assert report["missing_keys"] <= {"lm_head.weight"} | {n for n in report["missing_keys"] if "_norm" in n}
    assert loaded.dtype == torch.float32


def test_a_folder_is_whole_or_not_there_and_the_first_one_stays(tmp_path: Path, folder: Path) -> None:
    source = open_checkpoint(folder)
    write_safetensors_folder(source, tmp_path / "made", torch.bfloat16)
    before = (tmp_path / "made" / "config.json").stat()
    write_safetensors_folder(source, tmp_path / "made", torch.bfloat16)
    assert (tmp_path / "made" / "config.json").stat() == before
    (shard, *_) = sorted(folder.glob("*.safetensors"))
    shard.write_bytes(shard.read_bytes()[:100])
    with pytest.raises(CorruptWeightsError, match=shard.name):
        write_safetensors_folder(open_checkpoint(folder), tmp_path / "other", torch.bfloat16)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["made", "tiny"]
