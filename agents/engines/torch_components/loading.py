"""Loads one component of a model, and measures it."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch

from agents.engines.components.facts import ComponentFacts
from agents.engines.errors import OutOfMemoryError
from agents.engines.torch_engine.layer_reader import LayerReader
from agents.engines.torch_engine.shard import WHOLE
from agents.weights.checkpoint import Checkpoint
from agents.weights.fingerprint import FingerprintedCheckpoint
from agents.weights.meter import MeteredCheckpoint
from templates_lib.executors.memory_need import layer_values
from templates_lib.models.config_fields import Fields, UnsupportedModelError


class Component(Protocol):
    @property
    def hidden_size(self) -> int:
        """Return the width of its layers' rows."""

    @property
    def ffn_width(self) -> int:
        """Return the width of a layer's feed-forward block, gate and up together."""


Read = TypeVar("Read", bound=Component)


@dataclass(frozen=True, slots=True)
class Limits:
    """Of a batch, and of memory."""

    most_units: int = 32
    most_rows: int = 32_768
    """An image of 2,500 by 2,500 pixels in Qwen2.5-VL's patches."""
    memory_bytes: int | None = None
    """What weights and a largest batch may take of the device; None: whatever it gives."""
    takes_fewer: bool = False
    """Batches have fewer rows where the memory has no room for `most_rows`."""


def load_component(
    checkpoint: Checkpoint,
    component: str,
    readers: Mapping[tuple[str, str], Callable[[Fields, LayerReader], Read]],
    dtype: torch.dtype,
    device: torch.device,
    limits: Limits,
    values_behind: Callable[[Read], int] = lambda _: 0,
) -> tuple[Read, ComponentFacts]:
    """`readers`: (`model_type`, component of the model's graph) → what reads it. `values_behind`: counts the numbers
    that a row takes behind the layers, once those have given theirs back.

    Raises UnsupportedModelError for an architecture or component not known, WeightsError for missing or damaged files,
    OutOfMemoryError where it does not fit."""
    fields = Fields.of(checkpoint.config, "")
    family = fields.text("model_type", "")
    read = readers.get((family, component))
    if read is None:
        known = ", ".join(f"{name} of {model}" for model, name in readers)
        raise UnsupportedModelError("model_type", f"{component!r} of {family!r} is not known here, only {known}")
    if device.type == "cuda" and dtype == torch.float32:
        # cuDNN's convolutions would round what they multiply to ten bits; products of matrices do not.
        torch.backends.cudnn.allow_tf32 = False
    start = time.perf_counter()
    metered = MeteredCheckpoint(checkpoint)
    known_by = FingerprintedCheckpoint(metered)
    try:
        made = read(fields, LayerReader(known_by, "", WHOLE, dtype, device, None))
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "memory" not in str(error):
            raise
        raise OutOfMemoryError(f"{component} of {family} does not fit {device}: {error}") from error
    weight_bytes = sum(math.prod(checkpoint.shape(name)) for name in metered.reading.names) * dtype.itemsize
    row_bytes = dtype.itemsize * int(max(layer_values(made.hidden_size, made.ffn_width), values_behind(made)))
    most_rows = limits.most_rows
    if limits.memory_bytes is not None and limits.takes_fewer:
        most_rows = max(1, min(most_rows, (limits.memory_bytes - weight_bytes) // row_bytes))
    facts = ComponentFacts(
        engine="torch",
        family=family,
        component=component,
        most_units=limits.most_units,
        most_rows=most_rows,
        weight_bytes=weight_bytes,
        row_bytes=row_bytes,
        dtype=str(dtype).removeprefix("torch."),
        device=str(device),
        loaded_bytes=metered.reading.stored_bytes,
        load_s=time.perf_counter() - start,
        fingerprint=known_by.fingerprint,
    )
    if limits.memory_bytes is not None and facts.most_memory_bytes > limits.memory_bytes:
        raise OutOfMemoryError(
            f"{component} of {family} takes {facts.weight_bytes / 2**20:.0f} MiB of weights and "
            f"{facts.most_rows * facts.row_bytes / 2**20:.0f} MiB for a batch of {facts.most_rows} rows, of "
            f"{limits.memory_bytes / 2**20:.0f} MiB: allow fewer rows a batch"
        )
    return made, facts
