"""gpt-oss as published: experts in MXFP4."""

from pathlib import Path

import torch
from gguf import GGMLQuantizationType
from gguf.quants import dequantize

from agents.engines.torch_engine.mxfp4 import dequantised
from agents.weights.source import open_checkpoint
from tests.agents.engines.packed_experts import save_packed
from tests.agents.engines.pipelines import Pipeline
from tests.agents.engines.tiny_models import LAYERS, prompt_of


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


def test_packed_experts_give_the_tokens_of_the_same_numbers_unpacked(tmp_path: Path) -> None:
    plain, packed = save_packed(tmp_path)
    prompt = prompt_of(20)
    unpacked = Pipeline.load(open_checkpoint(plain), [LAYERS]).generate(prompt, 8)
    assert Pipeline.load(open_checkpoint(packed), [LAYERS]).generate(prompt, 8) == unpacked
