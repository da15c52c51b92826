"""A tiny model of pictures with random weights, in the form in which `bench.word_pictures` saves one."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from agents.engines.torch_components.picture_decoder import read_picture_decoder
from agents.engines.torch_components.picture_denoiser import read_picture_denoiser
from templates_lib.models.config_fields import Fields

WORDS = ["red", "blue", "circle", "square"]
CONFIG: dict[str, Any] = {
    "model_type": "word_pictures",
    "words": WORDS,
    "sample_size": 16,
    "steps": 3,
    "guidance": 2.0,
    "shift": 2.0,
    "transformer": {
        "num_layers": 2,
        "num_attention_heads": 2,
        "attention_head_dim": 16,
        "axes_dims_rope": [4, 6, 6],
        "joint_attention_dim": 12,
        "in_channels": 16,
        "out_channels": 4,
        "patch_size": 2,
    },
    "vae": {
        "base_dim": 4,
        "dim_mult": [1, 2],
        "num_res_blocks": 1,
        "z_dim": 4,
        "latents_mean": [0.1, -0.2, 0.0, 0.3],
        "latents_std": [1.0, 1.5, 0.5, 2.0],
    },
}
"""A row of latents is 4 by 4 pixels."""


def random_tensors(config: dict[str, Any], seed: int = 3) -> dict[str, torch.Tensor]:
    """Of both parts, by the names that their readers ask for."""
    made: dict[str, torch.Tensor] = {}
    draw = torch.Generator().manual_seed(seed)

    def of(part: str) -> Any:
        def tensor(name: str, shape: tuple[int, ...]) -> torch.Tensor:
            fan = max(1, torch.Size(shape[1:]).numel()) if len(shape) > 1 else 1
            values = torch.randn(shape, generator=draw) / fan**0.5
            if "norm" in name and not name.endswith("bias") and "linear" not in name:
                values = 1 + 0.1 * torch.randn(shape, generator=draw)
            made[f"{part}.{name}"] = values
            return values

        return tensor

    read_picture_denoiser(Fields.of(config["transformer"], ""), of("transformer"))
    read_picture_decoder(Fields.of(config["vae"], ""), of("vae"))
    return made


def save_pictures(folder: Path, config: dict[str, Any] = CONFIG) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    width = config["transformer"]["joint_attention_dim"]
    words = torch.randn(len(WORDS) + 1, width, generator=torch.Generator().manual_seed(1))
    save_file({**random_tensors(config), "words.weight": words}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    return folder
