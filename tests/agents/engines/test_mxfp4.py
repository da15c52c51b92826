"""gpt-oss as published: experts in MXFP4."""

from pathlib import Path

import pytest
import torch
from gguf import GGMLQuantizationType
from gguf.quants import dequantize
from safetensors.torch import load_file, save_file

from agents.engines.torch_engine.mxfp4 import dequantised
from agents.weights.source import open_checkpoint
from tests.agents.engines.pipelines import Pipeline
from tests.agents.engines.tiny_models import LAYERS, prompt_of, save_model


def test_values_are_those_of_the_gguf_packages_decoder() -> None:
    """ggml keeps the scale in front and low codes of a block apart from high ones; the numbers are the same."""
    generator = torch.Generator().manual_seed(0)
    blocks = torch.randint(0, 256, (5, 3, 16), generator=generator, dtype=torch.uint8)
    scales = torch.randint(110, 140, (5, 3), generator=generator, dtype=torch.uint8)
    low_then_high = torch.cat((blocks & 0xF, blocks >> 4), dim=-1)
    codes = torch.stack((blocks & 0xF, blocks >> 4), dim=-1).flatten(-2)
    assert low_then_high.shape == codes.shape
    packed = codes[..., :16] | codes[..., 16:] << 4
    stored = torch.cat((scales[..., None], packed), dim=-1).flatten(-2)
    expected = torch.from_numpy(dequantize(stored.numpy(), GGMLQuantizationType.MXFP4))
    assert torch.equal(dequantised(blocks, scales), expected)


@pytest.mark.parametrize("name", ["gpt-oss"])
def test_quantised_experts_give_the_tokens_of_the_same_numbers_unpacked(tmp_path: Path, name: str) -> None:
    plain, packed = tmp_path / "plain", tmp_path / "packed"
    save_model(name, plain)
    save_model(name, packed)
    generator = torch.Generator().manual_seed(3)
    for file in sorted(path.name for path in plain.glob("*.safetensors")):
        ours, theirs = load_file(plain / file), load_file(packed / file)
        for tensor_name in [n for n in ours if n.endswith(("gate_up_proj", "down_proj"))]:
            experts, columns, rows = theirs.pop(tensor_name).shape
            blocks = torch.randint(0, 256, (experts, rows, columns // 32, 16), generator=generator, dtype=torch.uint8)
            scales = torch.randint(120, 125, (experts, rows, columns // 32), generator=generator, dtype=torch.uint8)
            ours[tensor_name] = dequantised(blocks, scales).transpose(1, 2).contiguous()
            theirs |= {f"{tensor_name}_blocks": blocks, f"{tensor_name}_scales": scales}
        save_file(ours, plain / file)
        save_file(theirs, packed / file)
    (packed / "model.safetensors.index.json").write_text(_renamed(packed))
    prompt = prompt_of(20)
    unpacked = Pipeline(open_checkpoint(plain), [LAYERS]).generate(prompt, 8)
    assert Pipeline(open_checkpoint(packed), [LAYERS]).generate(prompt, 8) == unpacked


def _renamed(folder: Path) -> str:
    import json

    found = {name: path.name for path in folder.glob("*.safetensors") for name in load_file(path)}
    return json.dumps({"metadata": {}, "weight_map": found})
