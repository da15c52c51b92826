"""Models of the catalogue as plans offer them on rented nodes: their architectures at tiny size, and their tensors'
shapes at real size."""

import json
import math
from collections.abc import Collection
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from agents.engines.torch_engine.mxfp4 import BLOCK_WEIGHTS
from templates_lib.models.catalogue import load_models
from templates_lib.models.held_model import refusal_at
from templates_lib.values.clouds import SKYPILOT, clouds_of
from templates_lib.values.engines import model_engines, support_at
from templates_lib.values.work import Phase
from tests.agents.engines.packed_experts import save_packed
from tests.agents.engines.tiny_models import VOCABULARY, save_random

KV_HEADS, HEAD_DIM, LAYERS = 2, 16, 4
NO_TOKENS = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))


def offered() -> set[tuple[str, str, str, Phase]]:
    """(model, engine, format, phase) of all that a plan may have on a rented node."""
    found = set()
    for model in load_models().values():
        assert model.stored is not None
        for engine in model_engines():
            for cloud in clouds_of(SKYPILOT):
                support = support_at(engine, cloud)
                if support is not None and refusal_at(cloud, engine, model.id, model.stored) is None:
                    found |= {(model.id, engine, *each) for each in product(model.stored.formats, support.phases)}
    return found


def published_config(model: str) -> dict[str, Any]:
    folder = files("templates_lib").joinpath("data", "models")
    facts = (json.loads(path.read_text()) for path in folder.iterdir() if path.name.endswith(".json"))
    config: dict[str, Any] = next(fact["config"] for fact in facts if fact["id"] == model)
    return config


def tiny_config(model: str, head_dim: int = HEAD_DIM) -> dict[str, Any]:
    """Its published config with fewer and narrower layers; what else it says stays, and so does the number of query
    heads that share a KV head."""
    small = published_config(model) | NO_TOKENS
    small.pop("torch_dtype", None)
    heads = KV_HEADS * small["num_attention_heads"] // small["num_key_value_heads"]
    sizes = {
        "num_hidden_layers": LAYERS,
        "hidden_size": 128 if head_dim == HEAD_DIM and 128 % heads == 0 else head_dim * heads,
        "intermediate_size": 128,  # a quarter of it is a block of MXFP4
        "num_attention_heads": heads,
        "num_key_value_heads": KV_HEADS,
        "head_dim": head_dim,
        "vocab_size": VOCABULARY + 3,  # it need not be a multiple of anything
    }
    for key in ("num_local_experts", "num_experts"):
        sizes |= {key: 16} if key in small else {}
    if "moe_intermediate_size" in small:
        sizes["moe_intermediate_size"] = 32
    if small.get("sliding_window"):
        sizes["sliding_window"] = 20
    if "layer_types" in small:
        small["layer_types"] = small["layer_types"][:LAYERS]
    return small | sizes


def save_tiny(config: dict[str, Any], folder: Path) -> tuple[Path, PreTrainedModel]:
    """The checkpoint as it is published, and its numbers as transformers holds them."""
    plain = {key: value for key, value in config.items() if key != "quantization_config"}

    def save(to: Path) -> PreTrainedModel:
        made = AutoConfig.for_model(**plain)
        return save_random(AutoModelForCausalLM.from_config(made), to, 5)

    if "quantization_config" not in config:
        return folder, save(folder)
    unpacked, packed = save_packed(folder, save)
    return packed, AutoModelForCausalLM.from_pretrained(unpacked, dtype=torch.float32).eval()


QUANTISED: dict[str, dict[str, Any]] = {
    "fp8": {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]},
    "gptq": {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True},
    "awq": {"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm", "zero_point": True},
    "nvfp4": {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16},
}
"""`quantization_config` of checkpoints that others publish of these models."""
Stored = dict[str, tuple[tuple[int, ...], int]]
"""Name → shape, and bytes of an element."""


class PublishedShapes:
    """An `agents.weights.Checkpoint` of which only the shapes are known: those of a model's published tensors."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        plain = {key: value for key, value in config.items() if key != "quantization_config"}
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**plain))
        shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
        if config.get("tie_word_embeddings"):
            shapes.pop("lm_head.weight", None)
        quantised = config.get("quantization_config", {})
        method = quantised.get("quant_algo", quantised.get("quant_method", "")).lower()
        self._stored: Stored = {}
        for name, shape in shapes.items():
            self._stored |= _published(name, shape, method)

    @property
    def names(self) -> Collection[str]:
        return self._stored.keys()

    def shape(self, name: str) -> tuple[int, ...]:
        return self._stored[name][0]

    def stored_bytes(self, name: str) -> int:
        shape, element = self._stored[name]
        return math.prod(shape) * element

    def read(self, name: str) -> torch.Tensor:
        raise AssertionError(f"{name} has no numbers")


def _published(name: str, shape: tuple[int, ...], method: str) -> Stored:
    """transformers holds the experts of a layer as one tensor; gpt-oss' are published in MXFP4, others' one by one."""
    if "mlp.experts." not in name or name.endswith("_bias"):
        return _matrix(name, shape, method)
    experts, rows, columns = shape
    if method == "mxfp4":
        blocks = (experts, columns, rows // BLOCK_WEIGHTS)
        return {f"{name}_blocks": ((*blocks, BLOCK_WEIGHTS // 2), 1), f"{name}_scales": (blocks, 1)}
    before, last = name.rsplit(".", 1)
    parts = {"gate_up_proj": ("gate_proj", "up_proj"), "down_proj": ("down_proj",)}[last]
    one, made = (rows // len(parts), columns), {}
    for expert in range(experts):
        for part in parts:
            made |= _matrix(f"{before}.{expert}.{part}.weight", one, method)
    return made


def _matrix(name: str, shape: tuple[int, ...], method: str) -> Stored:
    """A matrix of a layer in a format, unless it is the router."""
    is_quantised = len(shape) == 2 and ".layers." in name and not name.endswith("mlp.gate.weight")
    if not is_quantised or method in ("", "mxfp4"):
        return {name: (shape, 2)}
    (rows, columns), before = shape, name.removesuffix("weight")
    groups = -(-columns // 128)
    pieces: Stored
    if method == "fp8":
        pieces = {"weight": (shape, 1), "weight_scale_inv": ((-(-rows // 128), groups), 4)}
    elif method == "nvfp4":
        pieces = {"weight": ((rows, columns // 2), 1), "weight_scale": ((rows, columns // 16), 1)}
        pieces |= {"weight_scale_2": ((), 4), "input_scale": ((), 4)}
    else:
        words = (columns // 8, rows) if method == "gptq" else (columns, rows // 8)
        pieces = {"qweight": (words, 4), "qzeros": ((groups, rows // 8), 4), "scales": ((groups, rows), 2)}
        pieces |= {"g_idx": ((columns,), 4)} if method == "gptq" else {}
    return {before + piece: stored for piece, stored in pieces.items()}
