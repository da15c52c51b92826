"""A Whisper model in CTranslate2's format, memory-mapped: the form in which it is packaged for processors."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from agents.weights.checksums import read_checksums, verify
from agents.weights.ctranslate2_header import Ctranslate2Header, StoredArray, read_header
from agents.weights.errors import CorruptWeightsError, MissingWeightsError, WeightsError, nearest
from agents.weights.mapped_file import map_file

MODEL = "model.bin"
VOCABULARY = "vocabulary.txt"
_END_OF_TEXT = "<|endoftext|>"
_PLAIN = (torch.float32, torch.float16, torch.bfloat16)
_ENDS = {"weight": "weight", "bias": "bias", "gamma": "weight", "beta": "bias", "encodings": "weight"}
_BESIDE_LAYERS = {
    "embeddings": "embed_tokens",
    "position_encodings": "embed_positions",
    "layer_norm": "layer_norm",
    "conv1": "conv1",
    "conv2": "conv2",
}
_IN_LAYER = {
    "self_attention/layer_norm": ("self_attn_layer_norm",),
    "self_attention/linear_0": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "self_attention/linear_1": ("self_attn.out_proj",),
    "attention/layer_norm": ("encoder_attn_layer_norm",),
    "attention/linear_0": ("encoder_attn.q_proj",),
    "attention/linear_1": ("encoder_attn.k_proj", "encoder_attn.v_proj"),
    "attention/linear_2": ("encoder_attn.out_proj",),
    "ffn/layer_norm": ("final_layer_norm",),
    "ffn/linear_0": ("fc1",),
    "ffn/linear_1": ("fc2",),
}
"""Stored name → the matrices that lie below each other in it."""
_LAYER = re.compile(r"(encoder|decoder)/layer_(\d+)/(.+)/(\w+)")
_BESIDE = re.compile(r"(encoder|decoder)/(\w+)/(\w+)")


@dataclass(frozen=True, slots=True)
class _Location:
    stored: str
    part: int
    parts: int
    """Matrices of equal height in the stored one, of which it is number `part`."""


class Ctranslate2Checkpoint:
    """A folder with model.bin. Every tensor comes under its Hugging Face name, as stored."""

    def __init__(self, folder: Path) -> None:
        self.path = folder
        self._file = folder / MODEL
        if not self._file.is_file():
            raise MissingWeightsError(f"{self._file} does not exist: the checkpoint is not complete, fetch it again")
        self._mapped = map_file(self._file)
        self._header = read_header(self._file, self._mapped)
        if self._header.spec != "WhisperSpec":
            raise WeightsError(f"{self._file} is a {self._header.spec}: of CTranslate2's models only Whispers are read")
        self._locations = dict(_locations(self._header))
        self._config = self._hf_config()
        self._checksums = read_checksums(folder)
        self._verified: set[str] = set()

    @property
    def config(self) -> dict[str, Any]:
        return self._config

    @property
    def names(self) -> Collection[str]:
        return self._locations.keys()

    def stored_bytes(self, name: str) -> int:
        location, array = self._found(name)
        return array.size // location.parts

    def shape(self, name: str) -> tuple[int, ...]:
        location, array = self._found(name)
        return (array.shape[0] // location.parts, *array.shape[1:])

    def read(self, name: str) -> torch.Tensor:
        location, array = self._found(name)
        if location.stored not in self._verified:
            verify(self._file, location.stored, self.stored(location.stored), self._checksums)
            self._verified.add(location.stored)
        height = array.shape[0] // location.parts
        return self._rows(name, slice(location.part * height, (location.part + 1) * height)).view(self.shape(name))

    def read_rows(self, name: str, rows: torch.Tensor) -> torch.Tensor:
        location, array = self._found(name)
        return self._rows(name, rows.numpy() + location.part * (array.shape[0] // location.parts))

    def _rows(self, name: str, some: NDArray[np.integer] | slice) -> torch.Tensor:
        """Rows of the stored tensor that `name` is a part of: (rows, columns), a copy."""
        array = self._found(name)[1]
        if array.dtype not in _PLAIN:
            kind = str(array.dtype).removeprefix("torch.")
            raise WeightsError(f"{self._file}: tensor {name!r} is quantised to {kind}, which is not read: use fp16")
        raw = np.frombuffer(self._mapped, dtype=np.uint8, count=array.size, offset=array.offset)
        return torch.from_numpy(raw.reshape(array.shape[0], -1)[some].copy()).view(array.dtype)

    @property
    def stored_names(self) -> Collection[str]:
        return self._header.arrays.keys()

    def stored(self, stored_name: str) -> memoryview:
        """The bytes of a stored tensor as they lie in the file."""
        array = self._header.arrays[stored_name]
        return memoryview(self._mapped)[array.offset : array.offset + array.size]

    def _found(self, name: str) -> tuple[_Location, StoredArray]:
        if name not in self._locations:
            raise MissingWeightsError(f"{self._file} has no tensor {name!r}{nearest(name, self._locations)}")
        location = self._locations[name]
        return location, self._header.arrays[location.stored]

    def _hf_config(self) -> dict[str, Any]:
        """Sizes are those of the tensors, heads are stored beside them."""
        try:
            hidden, bands, _ = self.shape("model.encoder.conv1.weight")
            return {
                "model_type": "whisper",
                "is_encoder_decoder": True,
                "d_model": hidden,
                "num_mel_bins": bands,
                "vocab_size": self.shape("model.decoder.embed_tokens.weight")[0],
                "max_source_positions": self.shape("model.encoder.embed_positions.weight")[0],
                "max_target_positions": self.shape("model.decoder.embed_positions.weight")[0],
                "eos_token_id": self._end_of_text(),
            } | {key: value for side in ("encoder", "decoder") for key, value in self._side(side).items()}
        except (MissingWeightsError, KeyError, ValueError) as error:
            raise CorruptWeightsError(self._file, f"lacks a part of Whisper ({error})") from error

    def _side(self, side: str) -> dict[str, Any]:
        heads = int.from_bytes(self.stored(f"{side}/num_heads"), "little", signed=True)
        layers = {match[2] for match in map(_LAYER.fullmatch, self._header.arrays) if match and match[1] == side}
        return {
            f"{side}_attention_heads": heads,
            f"{side}_layers": len(layers),
            f"{side}_ffn_dim": self.shape(f"model.{side}.layers.0.fc1.weight")[0],
        }

    def _end_of_text(self) -> int | None:
        """The place of the token in the list of tokens, a line each."""
        path = self.path / VOCABULARY
        lines = path.read_text().split("\n") if path.is_file() else []
        return lines.index(_END_OF_TEXT) if _END_OF_TEXT in lines else None


def _locations(header: Ctranslate2Header) -> Iterator[tuple[str, _Location]]:
    """Hugging Face name → location, for the stored tensors that are known."""
    for stored, array in header.arrays.items():
        in_layer, beside = _LAYER.fullmatch(stored), _BESIDE.fullmatch(stored)
        if in_layer is not None and in_layer[3] in _IN_LAYER and in_layer[4] in _ENDS:
            side, layer, matrices = in_layer[1], in_layer[2], _IN_LAYER[in_layer[3]]
            if len(array.shape) and array.shape[0] % len(matrices) == 0:
                for part, matrix in enumerate(matrices):
                    # Keys have no bias: what is stored for them are zeros.
                    if not (matrix.endswith("k_proj") and in_layer[4] == "bias"):
                        name = f"model.{side}.layers.{layer}.{matrix}.{_ENDS[in_layer[4]]}"
                        yield name, _Location(stored, part, len(matrices))
        elif beside is not None and beside[2] in _BESIDE_LAYERS and beside[3] in _ENDS and array.size:
            yield f"model.{beside[1]}.{_BESIDE_LAYERS[beside[2]]}.{_ENDS[beside[3]]}", _Location(stored, 0, 1)
