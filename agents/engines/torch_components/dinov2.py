"""DINOv2 (Oquab et al. 2023): images of any size to a row for each patch, and one for the whole."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional

from agents.engines.components.unit import EncoderUnit
from agents.engines.components.unit_kinds import Pixels
from agents.engines.torch_components.encoder_layer import EncoderLayer, FullAttention, all_rows, patch_projection
from agents.engines.torch_components.pixel_patches import pixel_patches
from agents.engines.torch_components.read_encoder import ReadEncoder, placed
from agents.engines.torch_components.segments import Segments
from agents.engines.torch_engine.layer_reader import LayerReader
from agents.engines.torch_engine.linear import Linear
from agents.engines.torch_engine.norm import LayerNorm
from agents.engines.torch_engine.whisper_layers import GeluMlp
from templates_lib.models.config_fields import Fields, UnsupportedModelError


@dataclass(frozen=True, slots=True, eq=False)
class DinoVision:
    embed: Linear
    class_row: torch.Tensor
    """(hidden,): the first row of each image."""
    positions: torch.Tensor
    """(1 + side², hidden), learned for one size."""
    layers: tuple[EncoderLayer, ...]
    norm: LayerNorm
    patch: int
    like: torch.Tensor

    def __call__(self, units: Sequence[EncoderUnit]) -> list[torch.Tensor]:
        """Pixels → (1 + patches, hidden) each."""
        rows = [self._embedded(image) for image in placed(units, self.like)]
        lengths = [len(each) for each in rows]
        segments, every = Segments(lengths, self.like.device), torch.cat(rows)
        for layer in self.layers:
            every = layer(every, segments)
        return list(torch.split(self.norm(every), lengths))

    def _embedded(self, image: torch.Tensor) -> torch.Tensor:
        """(channels, height, width) → (1 + patches, hidden)"""
        patches = self.embed(pixel_patches(image[None], self.patch)[0])
        rows = torch.cat((self.class_row[None], patches))
        return rows + self._positions(image.shape[1] // self.patch, image.shape[2] // self.patch)

    def _positions(self, rows: int, columns: int) -> torch.Tensor:
        """Positions for a grid of another size are interpolated."""
        learned = self.positions[1:]
        side = round(len(learned) ** 0.5)
        if rows == columns == side:
            return self.positions
        grid = learned.T.reshape(1, -1, side, side).to(torch.float32)
        grid = functional.interpolate(grid, size=(rows, columns), mode="bicubic", align_corners=False)
        return torch.cat((self.positions[:1], grid[0].flatten(1).T.to(learned)))


def read_dinov2(root: Fields, reader: LayerReader) -> ReadEncoder:
    if root.text("hidden_act", "gelu") != "gelu" or root.flag("use_swiglu_ffn", default=False):
        raise UnsupportedModelError("hidden_act", "only the plain block with a gelu is known")
    hidden, heads = root.integer("hidden_size", low=1), root.integer("num_attention_heads", low=1)
    ffn = int(hidden * root.number("mlp_ratio", 0.1, 100.0))
    if hidden % heads:
        raise UnsupportedModelError("num_attention_heads", f"{heads} heads do not divide {hidden}")
    patch, channels = root.integer("patch_size", low=1), root.integer("num_channels", 3, low=1, high=64)
    side, epsilon = root.integer("image_size", low=patch) // patch, root.number("layer_norm_eps", 0.0, 1.0)
    has_bias = root.flag("qkv_bias", default=True)
    layers = root.integer("num_hidden_layers", low=1, high=1024)
    vision = DinoVision(
        embed=patch_projection(
            reader, "embeddings.patch_embeddings.projection", (hidden, channels, patch, patch), bias=True
        ),
        class_row=reader.tensor("embeddings.cls_token", (1, 1, hidden))[0, 0],
        positions=reader.tensor("embeddings.position_embeddings", (1, 1 + side**2, hidden))[0],
        layers=tuple(
            _layer(reader.under(f"encoder.layer.{i}."), hidden, heads, ffn, epsilon, has_bias) for i in range(layers)
        ),
        norm=reader.layer_norm("layernorm", hidden, epsilon),
        patch=patch,
        like=reader.like,
    )
    return ReadEncoder(Pixels(channels, patch), hidden, vision, hidden, ffn)


def _layer(reader: LayerReader, hidden: int, heads: int, ffn: int, epsilon: float, has_bias: bool) -> EncoderLayer:
    own = reader.under("attention.")
    names = ("attention.query", "attention.key", "attention.value")
    return EncoderLayer(
        attention_norm=reader.layer_norm("norm1", hidden, epsilon),
        attention=FullAttention(
            query_key_value=own.into(names, all_rows(hidden, hidden, hidden), hidden, bias=has_bias),
            output=own.whole("output.dense", hidden, hidden, bias=True),
            heads=heads,
        ),
        feed_forward_norm=reader.layer_norm("norm2", hidden, epsilon),
        feed_forward=GeluMlp(
            reader.whole("mlp.fc1", ffn, hidden, bias=True), reader.whole("mlp.fc2", hidden, ffn, bias=True)
        ),
        attention_scale=reader.tensor("layer_scale1.lambda1", (hidden,)),
        feed_forward_scale=reader.tensor("layer_scale2.lambda1", (hidden,)),
    )
