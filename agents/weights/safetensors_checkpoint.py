"""Checkpoints in the safetensors format: one file, or shards with an index."""

import math
from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec
import torch
from safetensors import SafetensorError, safe_open

from agents.weights.checksums import read_checksums, verify
from agents.weights.errors import CorruptWeightsError, MissingWeightsError, nearest

CONFIG = "config.json"
SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"


class SafetensorsCheckpoint:
    """A folder with config.json and *.safetensors.

    A shard is opened (memory-mapped) when its first tensor is read: shards of other layers may be absent.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder
        self._config = _json_object(folder / CONFIG)
        self._checksums = read_checksums(folder)
        self._shards: dict[str, Any] = {}
        self._file_of = _index(folder) or dict.fromkeys(self._open(SINGLE).keys(), SINGLE)

    @property
    def config(self) -> dict[str, Any]:
        return self._config

    @property
    def has_checksums(self) -> bool:
        """Reading a tensor then proves it."""
        return bool(self._checksums)

    @property
    def names(self) -> Collection[str]:
        return self._file_of.keys()

    def stored_bytes(self, name: str) -> int:
        tensor = self._slice(name)
        return math.prod(self.shape(name)) * _ELEMENT_BITS[tensor.get_dtype()] // 8

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._slice(name).get_shape())

    def read(self, name: str) -> torch.Tensor:
        tensor = self._tensor(name)
        verify(self.path / self._file_of[name], name, _bytes_of(tensor), self._checksums)
        return tensor

    def read_rows(self, name: str, rows: torch.Tensor) -> torch.Tensor:
        return self._tensor(name)[rows]

    @property
    def stored_names(self) -> Collection[str]:
        return self._file_of.keys()

    def stored(self, name: str) -> memoryview:
        """The tensor's bytes as they lie in the file."""
        return _bytes_of(self._tensor(name))

    def _tensor(self, name: str) -> torch.Tensor:
        try:
            tensor: torch.Tensor = self._open(self._shard_of(name)).get_tensor(name)
        except (SafetensorError, KeyError) as error:
            raise CorruptWeightsError(self.path / self._file_of[name], f"tensor {name!r}: {error}") from error
        return tensor

    def _slice(self, name: str) -> Any:
        try:
            return self._open(self._shard_of(name)).get_slice(name)
        except SafetensorError as error:
            raise CorruptWeightsError(self.path / self._file_of[name], f"tensor {name!r}: {error}") from error

    def _shard_of(self, name: str) -> str:
        if name not in self._file_of:
            raise MissingWeightsError(f"{self.path} has no tensor {name!r}{nearest(name, self._file_of)}")
        return self._file_of[name]

    def _open(self, file: str) -> Any:
        if file not in self._shards:
            path = self.path / file
            if not path.is_file():
                raise MissingWeightsError(f"{path} does not exist: the checkpoint is not complete, fetch it again")
            try:
                self._shards[file] = safe_open(path, framework="pt", device="cpu")
            except (SafetensorError, OSError) as error:
                raise CorruptWeightsError(path, f"is no whole safetensors file ({error})") from error
        return self._shards[file]


_ELEMENT_BITS = {
    "BOOL": 8,
    "U8": 8,
    "I8": 8,
    "F8_E4M3": 8,
    "F8_E5M2": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "I64": 64,
    "U64": 64,
    "F64": 64,
}


def _bytes_of(tensor: torch.Tensor) -> memoryview:
    return tensor.contiguous().view(-1).view(torch.uint8).numpy().data


def _index(folder: Path) -> dict[str, str] | None:
    """Tensor name → file, from the index; None where the checkpoint is one file."""
    path = folder / INDEX
    if not path.is_file():
        return None
    weights = _json_object(path).get("weight_map")
    if not isinstance(weights, dict) or not all(isinstance(file, str) for file in weights.values()):
        raise CorruptWeightsError(path, "has no table `weight_map` of tensor names and files")
    outside = next((file for file in weights.values() if Path(file).name != file), None)
    if outside is not None:
        raise CorruptWeightsError(path, f"names {outside!r}, a file outside its own folder")
    return weights


def _json_object(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise MissingWeightsError(f"{path} does not exist: this is no checkpoint, or not a complete one")
    try:
        value = msgspec.json.decode(path.read_bytes())
    except msgspec.DecodeError as error:
        raise CorruptWeightsError(path, f"is no JSON ({error})") from error
    if not isinstance(value, dict):
        raise CorruptWeightsError(path, "is no JSON object")
    return value
