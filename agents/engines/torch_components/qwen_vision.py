"""Vision encoder of Qwen2.5-VL (Bai et al. 2025, section 2.1.1): patches of images and videos to rows of its
decoder."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from agents.engines.components.unit import EncoderUnit, Grid
from agents.engines.components.unit_kinds import Patches
from agents.engines.torch_components.encoder_layer import (
    BiasedGatedMlp,
    EncoderLayer,
    FullAttention,
    Rotation,
    all_rows,
    patch_projection,
)
from agents.engines.torch_components.omni_hearing import thinker_of
from agents.engines.torch_components.read_encoder import ReadEncoder, placed
from agents.engines.torch_components.segments import Segments
from agents.engines.torch_components.vision_windows import patch_places, window_order
from agents.engines.torch_engine.layer_reader import LayerReader
from agents.engines.torch_engine.linear import Linear, Projection
from agents.engines.torch_engine.norm import RmsNorm
from agents.engines.torch_engine.whisper_layers import GeluMlp
from templates_lib.models.config_fields import Fields, UnsupportedModelError

_EPSILON = 1e-6
_THETA = 10_000.0


@dataclass(frozen=True, slots=True, eq=False)
class QwenVision:
    embed: Linear
    """Flattened patches to rows."""
    layers: tuple[EncoderLayer, ...]
    full: frozenset[int]
    """Layers whose patches see all of their frame; in the others, those of their window."""
    norm: RmsNorm
    connector: Projection
    """A GELU between two products: rows of `merge`² patches to one of the decoder's."""
    merge: int
    window: int
    """Merged rows a side."""
    head_dim: int
    like: torch.Tensor

    def __call__(self, units: Sequence[EncoderUnit]) -> list[torch.Tensor]:
        """Patches → (frames × rows × columns / merge², width) each."""
        grids = [_grid(unit) for unit in units]
        windows = [window_order(grid, self.merge, self.window) for grid in grids]
        sizes = [len(order) for order, _ in windows]
        starts = np.cumsum([0, *sizes[:-1]])
        order = np.concatenate([own + start for (own, _), start in zip(windows, starts, strict=True)])
        by_window = torch.from_numpy(order).to(self.like.device)
        rows = self._reordered(self.embed(torch.cat(placed(units, self.like))), by_window)
        rotation = self._rotation(grids, by_window)
        narrow = Segments([length for _, lengths in windows for length in lengths], rows.device)
        frames = [rows_ * columns for frames, rows_, columns in grids for _ in range(frames)]
        # The order within a unit is that of windows, which keeps frames whole: full attention does not see it.
        wide = Segments(frames, rows.device)
        for i, layer in enumerate(self.layers):
            rows = layer(rows, wide if i in self.full else narrow, rotation)
        merged = self.connector(self.norm(rows).reshape(len(order), -1))
        return list(torch.split(merged[torch.argsort(by_window)], sizes))

    def _reordered(self, rows: torch.Tensor, by_window: torch.Tensor) -> torch.Tensor:
        """Rows of patches in the order of windows, those that are merged together."""
        return rows.view(len(by_window), self.merge**2, *rows.shape[1:])[by_window].flatten(0, 1)

    def _rotation(self, grids: Sequence[Grid], by_window: torch.Tensor) -> Rotation:
        """The first half of a head's pairs turns by the patch's row, the second by its column."""
        places = np.concatenate([patch_places(grid, self.merge) for grid in grids])
        at = torch.from_numpy(places).to(self.like.device, torch.float32)
        pairs = torch.arange(0, self.head_dim // 2, 2, dtype=torch.float32, device=self.like.device)
        inverse = _THETA ** -(pairs / (self.head_dim // 2))
        angles = (at[:, :, None] * inverse).flatten(1)[:, None, :]
        angles = self._reordered(angles, by_window)
        return angles.cos(), angles.sin()


def _grid(unit: EncoderUnit) -> Grid:
    if unit.grid is None:
        raise ValueError(f"unit {unit.id!r} has no grid")
    return unit.grid


def read_qwen_vision(root: Fields, reader: LayerReader) -> ReadEncoder:
    """`visual.` of the checkpoint, by the config's `vision_config`; of Qwen2.5-Omni's, by that of its thinker."""
    root, reader = thinker_of(root, reader)
    fields = root.part("vision_config")
    if fields.text("hidden_act", "silu") != "silu":
        raise UnsupportedModelError(f"{fields.prefix}hidden_act", "only silu is known")
    hidden, ffn = fields.integer("hidden_size", low=1), fields.integer("intermediate_size", low=1)
    heads, width = fields.integer("num_heads", low=1), fields.integer("out_hidden_size", low=1)
    if hidden % heads or hidden // heads % 4:
        raise UnsupportedModelError(f"{fields.prefix}num_heads", f"{heads} heads do not cut {hidden} into fours")
    merge, patch = fields.integer("spatial_merge_size", 2, low=1, high=16), fields.integer("patch_size", low=1)
    channels = fields.integer(fields.name_of("in_channels", "in_chans") or "in_channels", 3, low=1)
    kernel = (channels, fields.integer("temporal_patch_size", 2, low=1), patch, patch)
    window = fields.integer("window_size", low=1) // merge // patch
    if window < 1:
        raise UnsupportedModelError(f"{fields.prefix}window_size", "is smaller than the patches that are merged")
    depth = fields.integer("depth", low=1, high=1024)
    inside = reader.under("visual.")
    joined = merge**2 * hidden
    vision = QwenVision(
        embed=patch_projection(inside, "patch_embed.proj", (hidden, *kernel), bias=False),
        layers=tuple(_layer(inside.under(f"blocks.{i}."), hidden, heads, ffn) for i in range(depth)),
        full=frozenset(fields.integers("fullatt_block_indexes")),
        norm=inside.norm("merger.ln_q", hidden, _EPSILON, late_cast=False),
        connector=GeluMlp(
            inside.whole("merger.mlp.0", joined, joined, bias=True),
            inside.whole("merger.mlp.2", width, joined, bias=True),
        ),
        merge=merge,
        window=window,
        head_dim=hidden // heads,
        like=reader.like,
    )
    return ReadEncoder(Patches(channels, kernel[1], patch, merge), width, vision, hidden, 2 * ffn)


def _layer(reader: LayerReader, hidden: int, heads: int, ffn: int) -> EncoderLayer:
    is_joined = f"{reader.prefix}attn.qkv.weight" in reader.checkpoint.names  # Qwen2.5-Omni has three matrices
    names = ("attn.qkv",) if is_joined else ("attn.q", "attn.k", "attn.v")
    attention = FullAttention(
        query_key_value=reader.into(names, all_rows(hidden, hidden, hidden), hidden, bias=True),
        output=reader.whole("attn.proj", hidden, hidden, bias=True),
        heads=heads,
    )
    feed_forward = BiasedGatedMlp(
        reader.into(("mlp.gate_proj", "mlp.up_proj"), all_rows(ffn, ffn), hidden, bias=True),
        reader.whole("mlp.down_proj", hidden, ffn, bias=True),
    )
    norms = [reader.norm(name, hidden, _EPSILON, late_cast=False) for name in ("norm1", "norm2")]
    return EncoderLayer(norms[0], attention, norms[1], feed_forward)
