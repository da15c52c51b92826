"""Writes a DINOv2 as torch's exporter does: protocol buffers by hand, for no more than its weights need."""

from pathlib import Path

import numpy as np
from transformers import PreTrainedModel

MATRICES = ("attention.query", "attention.key", "attention.value", "output.dense", "mlp.fc1", "mlp.fc2")


def varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def field(number: int, value: int | bytes | str) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def tensor(name: str, array: np.ndarray, packs: bool) -> bytes:
    """`packs`: sizes behind each other, as proto3 writes them; else each by itself, as proto2 does."""
    dims = field(1, b"".join(map(varint, array.shape))) if packs else b"".join(field(1, side) for side in array.shape)
    kind = {np.dtype(np.float32): 1, np.dtype(np.float16): 10, np.dtype(np.int64): 7}[array.dtype]
    return field(5, dims + field(2, kind) + field(8, name) + field(9, np.ascontiguousarray(array).tobytes()))


def node(operation: str, inputs: tuple[str, ...], output: str) -> bytes:
    return field(1, b"".join(field(1, each) for each in inputs) + field(2, output) + field(4, operation))


def write_onnx(path: Path, model: PreTrainedModel, prefix: str = "backbone.", packs: bool = True) -> None:
    """A model of which positions are cut and matrices transposed, in front of a head of its own."""
    graph, parts = [], []
    for name, weight in model.state_dict().items():
        array = weight.numpy()
        if name.endswith(".weight") and any(f"{matrix}.weight" in name for matrix in MATRICES):
            stored, made = f"onnx::MatMul_{len(parts)}", f"product {len(parts)}"
            parts.append(tensor(stored, array.T, packs))
            graph.append(node("MatMul", ("input", stored), made))
            bias = f"{prefix}{name.removesuffix('.weight')}.bias"
            graph.append(node("Add", (bias, made) if len(parts) % 2 else (made, bias), f"sum {len(parts)}"))
        elif name == "embeddings.position_embeddings":
            parts += [tensor("onnx::Concat_1", array[:, :1], packs), tensor("onnx::Reshape_2", array[:, 1:], packs)]
        elif name != "embeddings.mask_token":
            parts.append(tensor(f"{prefix}{name}", array, packs))
    parts.append(tensor("decoder.conv.weight", np.zeros((2, 3), np.float32), packs))
    parts.append(tensor("onnx::Gather_3", np.zeros((1, 5), np.int64), packs))
    version = field(1, 8)
    path.write_bytes(version + field(7, b"".join(graph) + b"".join(parts)))
