"""One GGUF file, memory-mapped: a tensor is paged in and dequantised when it is read."""

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf.quants import dequantize
from numpy.typing import NDArray

from agents.weights.checksums import read_checksums, verify
from agents.weights.errors import MissingWeightsError, WeightsError, nearest
from agents.weights.gguf_config import hf_config
from agents.weights.gguf_header import StoredTensor, read_header
from agents.weights.gguf_names import Location, locations
from agents.weights.mapped_file import map_file

ROPE_FACTORS = "rope_freqs.weight"
_ROTATED = re.compile(r"self_attn\.([qk])_proj")


class GgufCheckpoint:
    """Every tensor comes as fp32 under its Hugging Face name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._mapped = map_file(path)
        self._header = read_header(path, self._mapped)
        self._config = hf_config(path, self._header)
        self._locations = locations({name: tensor.shape for name, tensor in self._header.tensors.items()})
        self._checksums = read_checksums(path)
        self._verified: set[str] = set()
        if ROPE_FACTORS in self._header.tensors:
            factors = self._dequantised(self._header.tensors[ROPE_FACTORS])
            self._config["rope_scaling"] = {"rope_type": "frequency_factors", "factors": factors.tolist()}

    @property
    def config(self) -> dict[str, Any]:
        return self._config

    @property
    def names(self) -> Collection[str]:
        return self._locations.keys()

    def stored_bytes(self, name: str) -> int:
        location = self._location(name)
        tensor = self._header.tensors[location.stored]
        return tensor.size if location.expert is None else tensor.size // tensor.shape[0]

    def shape(self, name: str) -> tuple[int, ...]:
        location = self._location(name)
        shape = self._header.tensors[location.stored].shape
        return shape if location.expert is None else shape[1:]

    def read_rows(self, name: str, rows: torch.Tensor) -> torch.Tensor:
        location = self._location(name)
        if location.expert is not None or _ROTATED.search(name):  # stored in another order than published
            return self.read(name)[rows]
        return torch.from_numpy(self._dequantised(self._header.tensors[location.stored], rows.numpy()))

    def read(self, name: str) -> torch.Tensor:
        location = self._location(name)
        tensor = self._header.tensors[location.stored]
        if location.stored not in self._verified:
            verify(self.path, location.stored, self.stored(location.stored), self._checksums)
            self._verified.add(location.stored)
        if location.expert is not None:
            size = tensor.size // tensor.shape[0]
            tensor = StoredTensor(tensor.kind, tensor.shape[1:], tensor.offset + location.expert * size, size)
        values = torch.from_numpy(self._dequantised(tensor))
        rotated = _ROTATED.search(name)
        if rotated and self._config["model_type"] == "llama":
            return _halves(values, self._config["num_attention_heads" if rotated[1] == "q" else "num_key_value_heads"])
        return values

    @property
    def stored_names(self) -> Collection[str]:
        return self._header.tensors.keys()

    def stored(self, stored_name: str) -> memoryview:
        """The bytes of a stored tensor as they lie in the file."""
        tensor = self._header.tensors[stored_name]
        return memoryview(self._mapped)[tensor.offset : tensor.offset + tensor.size]

    def _dequantised(
        self, tensor: StoredTensor, some: NDArray[np.integer] | slice = slice(None)
    ) -> NDArray[np.float32]:
        """All of it, or some of its rows: formats have blocks along a row."""
        raw = np.frombuffer(self._mapped, dtype=np.uint8, count=tensor.size, offset=tensor.offset)
        if tensor.kind.name in ("F32", "F16"):
            plain = raw.view(np.float32 if tensor.kind.name == "F32" else np.float16)
            return plain.reshape(tensor.shape)[some].astype(np.float32)
        rows = raw.reshape(*tensor.shape[:-1], -1)[some]
        try:
            return dequantize(rows, tensor.kind).astype(np.float32, copy=False).reshape(-1, *tensor.shape[1:])
        except NotImplementedError as error:
            raise WeightsError(f"{self.path}: quantisation {tensor.kind.name} is not read ({error})") from error

    def _location(self, name: str) -> Location:
        if name not in self._locations:
            raise MissingWeightsError(f"{self.path} has no tensor {name!r}{nearest(name, self._locations)}")
        return self._locations[name]


def _halves(values: torch.Tensor, heads: int) -> torch.Tensor:
    """Undo the reordering of convert_hf_to_gguf.py (`LlamaModel.permute`): llama.cpp rotates neighbouring pairs of a
    head's rows, Hugging Face row i with row i + head_dim / 2."""
    pairs = values.reshape(heads, values.shape[0] // heads // 2, 2, *values.shape[1:])
    return pairs.swapaxes(1, 2).reshape(values.shape)
