"""A DINOv2 encoder in an ONNX file, memory-mapped: the form in which it is packaged for processors."""

import math
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from agents.weights.checksums import read_checksums, verify
from agents.weights.errors import MissingWeightsError, WeightsError, nearest
from agents.weights.mapped_file import map_file
from agents.weights.onnx_header import OnnxHeader, OnnxTensor, read_header

SUFFIX = ".onnx"
_CLASS_ROW = "embeddings.cls_token"
_POSITIONS = "embeddings.position_embeddings"
_PROJECTION = "embeddings.patch_embeddings.projection.weight"
_LAYER = re.compile(r"encoder\.layer\.(\d+)\.layer_scale1\.lambda1")
_HEAD_SIZE = 64
"""Of every published DINOv2 (Oquab et al. 2023, table 16); nothing in the file says it."""


@dataclass(frozen=True, slots=True)
class _Location:
    stored: tuple[str, ...]
    """Joined along their second axis where there are several."""
    transposed: bool = False


class OnnxCheckpoint:
    """The file's DINOv2 under Hugging Face names; what follows it in the file is left out."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._mapped = map_file(path)
        self._header = read_header(path, self._mapped)
        self._locations = _locations(path, self._header)
        self._config = self._hf_config()
        self._checksums = read_checksums(path)
        self._verified: set[str] = set()

    @property
    def config(self) -> dict[str, Any]:
        return self._config

    @property
    def names(self) -> Collection[str]:
        return self._locations.keys()

    def stored_bytes(self, name: str) -> int:
        return sum(tensor.size for tensor in self._stored(name))

    def shape(self, name: str) -> tuple[int, ...]:
        parts = [tensor.shape for tensor in self._stored(name)]
        if self._locations[name].transposed:
            return parts[0][::-1]
        return parts[0] if len(parts) == 1 else (parts[0][0], sum(part[1] for part in parts), *parts[0][2:])

    def read(self, name: str) -> torch.Tensor:
        parts = [self._read(stored) for stored in self._location(name).stored]
        if self._locations[name].transposed:
            return parts[0].T
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)

    def read_rows(self, name: str, rows: torch.Tensor) -> torch.Tensor:
        return self.read(name)[rows]

    @property
    def stored_names(self) -> Collection[str]:
        return self._header.tensors.keys()

    def stored(self, stored_name: str) -> memoryview:
        """The bytes of a stored tensor as they lie in the file."""
        tensor = self._header.tensors[stored_name]
        return memoryview(self._mapped)[tensor.offset : tensor.offset + tensor.size]

    def _read(self, stored: str) -> torch.Tensor:
        if stored not in self._verified:
            verify(self.path, stored, self.stored(stored), self._checksums)
            self._verified.add(stored)
        tensor = self._header.tensors[stored]
        raw = np.frombuffer(self._mapped, dtype=np.uint8, count=tensor.size, offset=tensor.offset)
        return torch.from_numpy(raw.copy()).view(tensor.dtype).view(tensor.shape)

    def _location(self, name: str) -> _Location:
        if name not in self._locations:
            raise MissingWeightsError(f"{self.path} has no tensor {name!r}{nearest(name, self._locations)}")
        return self._locations[name]

    def _stored(self, name: str) -> list[OnnxTensor]:
        return [self._header.tensors[stored] for stored in self._location(name).stored]

    def _hf_config(self) -> dict[str, Any]:
        """Sizes are those of the tensors."""
        layers = [match for match in map(_LAYER.fullmatch, self._locations) if match]
        hidden, channels, patch, _ = self.shape(_PROJECTION)
        side = math.isqrt(self.shape(_POSITIONS)[1] - 1)
        return {
            "model_type": "dinov2",
            "hidden_size": hidden,
            "num_hidden_layers": len(layers),
            "num_attention_heads": hidden // _HEAD_SIZE,
            "mlp_ratio": self.shape("encoder.layer.0.mlp.fc1.bias")[0] // hidden,
            "num_channels": channels,
            "patch_size": patch,
            "image_size": side * patch,
            "layer_norm_eps": 1e-6,
        }


def _locations(path: Path, header: OnnxHeader) -> dict[str, _Location]:
    """Hugging Face name → location. torch's exporter keeps names of what is used as it is; matrices of products are
    transposed and lose theirs, which that of the bias tells, and so do positions, which are cut in two."""
    prefix = next((name.removesuffix(_CLASS_ROW) for name in header.tensors if name.endswith(_CLASS_ROW)), None)
    if prefix is None or f"{prefix}{_PROJECTION}" not in header.tensors:
        raise WeightsError(f"{path} holds no DINOv2: of ONNX files only such are read")
    named = {
        stored.removeprefix(prefix): _Location((stored,)) for stored in header.tensors if stored.startswith(prefix)
    }
    product = {
        node.outputs[0]: node.inputs[1]
        for node in header.nodes
        if node.operation == "MatMul" and len(node.inputs) == 2 and node.inputs[1] in header.tensors
    }
    for node in header.nodes:
        biases = [each for each in node.inputs if each.endswith(".bias") and each.startswith(prefix)]
        matrices = [product[each] for each in node.inputs if each in product]
        if node.operation == "Add" and len(biases) == len(matrices) == 1:
            name = f"{biases[0].removeprefix(prefix).removesuffix('.bias')}.weight"
            named[name] = _Location((matrices[0],), transposed=True)
    if _POSITIONS not in named:
        named[_POSITIONS] = _Location(_positions(path, header, prefix))
    return named


def _positions(path: Path, header: OnnxHeader, prefix: str) -> tuple[str, str]:
    """The constants that positions have become: of the class row, and of the patches."""
    hidden = header.tensors[f"{prefix}{_CLASS_ROW}"].shape[-1]
    rows = {
        name: tensor.shape[1]
        for name, tensor in header.tensors.items()
        if not name.startswith(prefix) and len(tensor.shape) == 3 and tensor.shape[::2] == (1, hidden)
    }
    first = [name for name, count in rows.items() if count == 1]
    patches = [name for name, count in rows.items() if count > 1 and math.isqrt(count) ** 2 == count]
    if len(first) != 1 or len(patches) != 1:
        raise WeightsError(f"{path} has no positions of a DINOv2 that could be told from other constants")
    return first[0], patches[0]
