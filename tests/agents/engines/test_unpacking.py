"""What unpacking moves through memory is what plans count with."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from agents.engines.torch_engine.mxfp4 import dequantised
from agents.engines.torch_engine.quantised_reader import read_quantised
from agents.engines.torch_engine.weight_layout import weight_layout
from agents.weights.source import open_checkpoint
from templates_lib.models.config_fields import Fields
from templates_lib.values.engines import support_of
from tests.agents.engines.packed_weights import INT8, Format, fp8_blocks, nvfp4, save_in

SIZES = {"num_hidden_layers": 1, "hidden_size": 256, "num_attention_heads": 8, "intermediate_size": 512}
VIEWS = ("view", "unsqueeze", "slice", "expand", "as_strided", "reshape", "select", "alias", "detach")


class Moved(TorchDispatchMode):
    """Bytes that operations read and write."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not any(part in str(func) for part in VIEWS):
            # Of a table that is indexed, the entries are read that are written.
            read = args[1:] if "index" in str(func) else args
            self.bytes += sum(_touched(each) for each in tree_leaves((read, result)) if isinstance(each, torch.Tensor))
        return result


def _touched(tensor: torch.Tensor) -> int:
    size = tensor.element_size()
    for length, stride in zip(tensor.shape, tensor.stride(), strict=True):
        size *= length if stride else 1
    return size


def moved(unpack: Callable[[], torch.Tensor]) -> float:
    """Bytes for each weight, tables made before."""
    unpack()
    with Moved() as count:
        weights = unpack()
    return count.bytes / weights.numel()


@pytest.mark.parametrize(
    ("dtype", "form"), [("fp8", fp8_blocks(128, 128)), ("int8", INT8), ("nvfp4", nvfp4(compressed_tensors=False))]
)
def test_matrices(tmp_path: Path, dtype: str, form: Format) -> None:
    checkpoint = open_checkpoint(save_in(form, "llama", tmp_path, **SIZES)[1])
    layout = weight_layout(Fields(checkpoint.config), "llama")
    assert layout is not None
    loose = read_quantised(checkpoint, "model.layers.0.mlp.down_proj", layout, 256, 512)
    matrix = loose.part(slice(0, 256), slice(0, 512))
    counted = moved(lambda: matrix.unpacked(slice(0, 256), torch.bfloat16))
    assert support_of("torch").unpacked[dtype] == pytest.approx(counted, rel=0.15)


def test_experts_in_mxfp4() -> None:
    blocks = torch.zeros(4, 64, 8, 16, dtype=torch.uint8)
    scales = torch.full((4, 64, 8), 127, dtype=torch.uint8)
    some = torch.tensor([0, 2])
    counted = moved(lambda: dequantised(blocks[some], scales[some], torch.bfloat16))
    assert support_of("torch").unpacked["mxfp4"] == pytest.approx(counted, rel=0.15)
