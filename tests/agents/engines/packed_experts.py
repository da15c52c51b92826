"""gpt-oss as published, with experts in MXFP4, beside the same numbers unpacked."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from agents.engines.torch_engine.mxfp4 import dequantised
from agents.weights.safetensors_checkpoint import CONFIG, INDEX
from tests.agents.engines.tiny_models import save_model

NOT_PACKED = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]
"""As the published config.json says."""
_GPT_OSS = partial(save_model, "gpt-oss")


def save_packed(folder: Path, save: Callable[[Path], object] = _GPT_OSS) -> tuple[Path, Path]:
    """gpt-oss with experts as plain numbers, and the same numbers in MXFP4. `save`: the same model, each time."""
    plain, packed = folder / "plain", folder / "packed"
    save(plain)
    save(packed)
    generator = torch.Generator().manual_seed(3)
    file_of = {}
    for file in sorted(path.name for path in plain.glob("*.safetensors")):
        ours, theirs = load_file(plain / file), load_file(packed / file)
        for name in [n for n in ours if n.endswith(("gate_up_proj", "down_proj"))]:
            experts, columns, rows = theirs.pop(name).shape
            blocks = torch.randint(0, 256, (experts, rows, columns // 32, 16), generator=generator, dtype=torch.uint8)
            scales = torch.randint(120, 125, (experts, rows, columns // 32), generator=generator, dtype=torch.uint8)
            ours[name] = dequantised(blocks, scales).transpose(1, 2).contiguous()
            theirs |= {f"{name}_blocks": blocks, f"{name}_scales": scales}
        save_file(ours, plain / file)
        save_file(theirs, packed / file)
        file_of |= dict.fromkeys(theirs, file)
    (packed / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": file_of}))
    config = json.loads((packed / CONFIG).read_text())
    config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": NOT_PACKED}
    (packed / CONFIG).write_text(json.dumps(config))
    return plain, packed
