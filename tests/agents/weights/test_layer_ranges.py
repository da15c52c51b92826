"""A node reads what it holds and nothing else, and refuses damaged files by name."""

import json
from pathlib import Path

import pytest
import torch

from agents.engines.layer_range import LayerRange
from agents.engines.torch_engine.decoder_config import decoder_config
from agents.engines.torch_engine.stage_weights import read_stage
from agents.weights.errors import CorruptWeightsError, MissingWeightsError
from agents.weights.meter import MeteredCheckpoint
from agents.weights.safetensors_checkpoint import INDEX, SafetensorsCheckpoint
from agents.weights.source import open_checkpoint, record_checksums

MIDDLE = LayerRange(2, 2, first=False, last=False)
IN_MIDDLE = ("model.layers.2.", "model.layers.3.")


def load(folder: Path, held: LayerRange) -> tuple[str, ...]:
    """Names of the tensors that were read."""
    metered = MeteredCheckpoint(open_checkpoint(folder))
    read_stage(metered, decoder_config(metered.config), held, torch.float32, torch.device("cpu"))
    assert metered.reading.stored_bytes == sum(metered.stored_bytes(name) for name in metered.reading.names)
    assert metered.reading.bytes_per_s > 0
    return metered.reading.names


def file_of(folder: Path) -> dict[str, str]:
    return json.loads((folder / INDEX).read_text())["weight_map"]


def test_a_middle_stage_reads_its_layers_once_and_no_end(folder: Path) -> None:
    names = load(folder, MIDDLE)
    assert sorted(names) == sorted(name for name in file_of(folder) if name.startswith(IN_MIDDLE))


def test_the_ends_come_with_the_first_and_the_last_stage(folder: Path) -> None:
    first = load(folder, LayerRange(0, 1, first=True, last=False))
    last = load(folder, LayerRange(5, 1, first=False, last=True))
    assert {name for name in first if ".layers." not in name} == {"model.embed_tokens.weight"}
    assert {name for name in last if ".layers." not in name} == {"model.norm.weight", "lm_head.weight"}


def test_shards_of_other_layers_may_be_absent_or_cut_short(folder: Path) -> None:
    files = file_of(folder)
    needed = {file for name, file in files.items() if name.startswith(IN_MIDDLE)}
    others = sorted(set(files.values()) - needed)
    assert len(others) > 2
    for file in others[1:]:
        (folder / file).unlink()
    (folder / others[0]).write_bytes(b"cut")
    assert load(folder, MIDDLE)


def test_a_missing_shard_that_is_needed_is_named(folder: Path) -> None:
    shard = file_of(folder)["model.layers.2.mlp.down_proj.weight"]
    (folder / shard).unlink()
    with pytest.raises(MissingWeightsError, match=shard):
        load(folder, MIDDLE)


@pytest.mark.parametrize("damage", ["truncated", "header", "empty"])
def test_a_damaged_shard_is_refused_by_name(folder: Path, damage: str) -> None:
    shard = folder / file_of(folder)["model.layers.2.mlp.down_proj.weight"]
    whole = shard.read_bytes()
    shard.write_bytes({"truncated": whole[: len(whole) // 2], "header": b"\xff" * 8 + whole[8:], "empty": b""}[damage])
    with pytest.raises(CorruptWeightsError, match=shard.name) as refused:
        load(folder, MIDDLE)
    assert refused.value.file == shard


def test_a_flipped_bit_is_refused_by_file_and_tensor_and_only_where_it_is_held(folder: Path) -> None:
    assert record_checksums(folder) == len(file_of(folder))
    assert load(folder, MIDDLE)
    name = "model.layers.4.mlp.down_proj.weight"
    shard = folder / file_of(folder)[name]
    data = bytearray(shard.read_bytes())
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    data[8 + int.from_bytes(data[:8], "little") + header[name]["data_offsets"][0]] ^= 1
    shard.write_bytes(data)
    assert load(folder, MIDDLE)
    with pytest.raises(CorruptWeightsError, match=f"{shard.name}.*{name}"):
        load(folder, LayerRange(4, 2, first=False, last=True))


def test_an_index_that_points_elsewhere_is_refused(folder: Path) -> None:
    index = json.loads((folder / INDEX).read_text())
    index["weight_map"]["lm_head.weight"] = "../other/model.safetensors"
    (folder / INDEX).write_text(json.dumps(index))
    with pytest.raises(CorruptWeightsError, match="outside its own folder"):
        SafetensorsCheckpoint(folder)


def test_a_wrong_name_is_met_with_the_nearest(folder: Path) -> None:
    with pytest.raises(MissingWeightsError, match=r"did you mean 'model\.layers\.1\.mlp\.up_proj\.weight'"):
        open_checkpoint(folder).read("model.layers.1.mlp.up_project.weight")
