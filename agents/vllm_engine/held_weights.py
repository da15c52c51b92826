"""What weights take in vLLM's workers once they are loaded, beside what plans count."""

import logging
from itertools import chain
from typing import Any

import numpy as np
import torch

from agents.vllm_engine.exchange import Split
from templates_lib.models.config_fields import UnsupportedModelError
from templates_lib.models.held_model import held_by
from templates_lib.models.hf_config import model_from_hf_config
from templates_lib.models.model_spec import in_fp32
from templates_lib.ports.cost_model import Parallel
from templates_lib.throughput.memory import weights_bytes
from templates_lib.values.throughput_table import StageRole

_log = logging.getLogger(__name__)
TOLERANCE = 0.03
"""Share of what is planned that weights may take beyond it before the log warns: plans leave as much of a GPU free."""


def held_bytes(worker: Any) -> int:
    """Called in each worker: bytes of all that its part of the model keeps, what is there twice counted once.

    On CPUs oneDNN takes a matrix over into memory of its own and leaves none behind: that counts by its shape."""
    model = worker.get_model()
    tensors = list(chain(model.parameters(), model.buffers()))
    storages = {each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in tensors}
    return int(sum(storages.values()) + sum(map(_packed_bytes, model.modules())))


def _packed_bytes(layer: Any) -> int:
    weight = getattr(layer, "weight", None)
    if not isinstance(weight, torch.Tensor) or weight.numel() or not hasattr(layer, "output_partition_sizes"):
        return 0
    depth = getattr(layer, "input_size_per_partition", layer.input_size)  # each rank has a router whole
    return int(sum(layer.output_partition_sizes) * depth * weight.element_size())


def planned_bytes(config: dict[str, Any], dtype: str, split: Split) -> float:
    """Return what plans count on the fullest device of a whole model that is cut so. `config`: of the checkpoint.

    Raises UnsupportedModelError for a model that cannot be planned."""
    model = held_by("vllm", model_from_hf_config(config, "model", ""))
    if dtype == "float32":
        model = in_fp32(model)
    experts = split.tensor_parallel if split.whole_experts else 1
    parallel = Parallel(tp=split.tensor_parallel, pp=split.parts, ep=experts)
    by_role = weights_bytes(model, parallel, np.array([model.layers]))
    return float(by_role[list(StageRole).index(StageRole.ONLY)].item())


def log_weights(held: list[int], config: dict[str, Any], dtype: str, split: Split) -> None:
    """Log what the fullest device holds, as a warning where it is more than plans count. `held`: of each worker."""
    try:
        planned = planned_bytes(config, dtype, split)
    except UnsupportedModelError:
        _log.info("weights take %d bytes on the fullest device", max(held))
        return
    level = logging.WARNING if max(held) > (1 + TOLERANCE) * planned else logging.INFO
    _log.log(level, "weights take %d bytes on the fullest device, plans count %d", max(held), planned)
