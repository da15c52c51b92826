"""The held layers of a model as vLLM makes them, with weights from our checkpoint."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import torch
from vllm.config import get_layers_from_vllm_config, set_current_vllm_config
from vllm.distributed import parallel_state
from vllm.engine.arg_utils import EngineArgs
from vllm.model_executor.layers.attention import Attention
from vllm.model_executor.model_loader.utils import initialize_model, process_weights_after_loading
from vllm.utils.torch_utils import set_default_torch_dtype

from agents.engines.layer_range import LayerRange
from agents.weights.checkpoint import Checkpoint
from templates_lib.models.config_fields import UnsupportedModelError

ROWS = {"hidden_states", "residual"}
"""What vLLM's models pass from stage to stage where our rows can stand for it: their sum."""
_LAYER = re.compile(r"model\.layers\.(\d+)\.")


@dataclass(frozen=True, slots=True)
class PipelinePlace:
    """A stage's place in the pipeline, where vLLM has its pipeline process group: the models ask it which layers and
    ends are theirs.

    Nothing is ever sent over it; rows travel over our own edges."""

    rank_in_group: int
    world_size: int

    @property
    def is_first_rank(self) -> bool:
        return self.rank_in_group == 0

    @property
    def is_last_rank(self) -> bool:
        return self.rank_in_group == self.world_size - 1


@dataclass(frozen=True, slots=True)
class VllmStageModel:
    model: Any
    config: Any
    attention: dict[str, Any]
    """vLLM's attention layers, by name, in the order of the held layers."""


def load_stage_model(
    checkpoint: Checkpoint, held: LayerRange, model_layers: int, block_tokens: int, dtype: torch.dtype
) -> VllmStageModel:
    """One at a time in a process: what vLLM knows of its place is global. On the CPU.

    Raises UnsupportedModelError for a model that passes more than rows from stage to stage."""
    torch._dynamo.config.disable = True  # would need a compiler
    name = str(dtype).removeprefix("torch.")
    with TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_bytes(msgspec.json.encode(checkpoint.config | {"dtype": name}))
        arguments = EngineArgs(
            model=folder, skip_tokenizer_init=True, generation_config="vllm", dtype=name, enforce_eager=True
        )
        config = arguments.create_engine_config()
        config.cache_config.block_size = block_tokens
        with set_current_vllm_config(config), set_default_torch_dtype(dtype):
            if not parallel_state.model_parallel_is_initialized():
                parallel_state.init_distributed_environment(1, 0, f"file://{folder}/store", 0, "gloo")
                parallel_state.initialize_model_parallel(1, 1)
            take_place(held, model_layers)
            model = initialize_model(vllm_config=config)
            model.load_weights(_weights(checkpoint, held))
            process_weights_after_loading(model, config.model_config, torch.device("cpu"))
    passed = set(model.make_empty_intermediate_tensors(1, dtype, torch.device("cpu")).tensors)
    if passed != ROWS:
        raise UnsupportedModelError("model_type", f"vLLM's stages of it pass on {sorted(passed)}, not {sorted(ROWS)}")
    return VllmStageModel(model.eval(), config, get_layers_from_vllm_config(config, Attention))


def _weights(checkpoint: Checkpoint, held: LayerRange) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors of the held layers and ends, and no others."""
    is_tied = bool(checkpoint.config.get("tie_word_embeddings"))
    for name in checkpoint.names:
        layer = _LAYER.match(name)
        if layer is not None:
            is_held = held.first_layer <= int(layer[1]) < held.end
        elif name == "model.embed_tokens.weight":
            is_held = held.first or (held.last and is_tied)
        else:
            is_held = held.last
        if is_held:
            yield name, checkpoint.read(name)


def take_place(held: LayerRange, model_layers: int) -> None:
    """Have the models that this process makes hold `held` from now on: at most three ranks, of which ours is one."""
    from vllm.distributed import parallel_state

    before, after = held.first_layer, model_layers - held.end
    partition = [layers for layers in (before, held.layers, after) if layers]
    os.environ["VLLM_PP_LAYER_PARTITION"] = ",".join(map(str, partition))
    parallel_state._PP = PipelinePlace(1 if before else 0, len(partition))
