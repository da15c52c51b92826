"""Vision encoder of InternVL3 with its connector (Zhu et al. 2025; InternViT, Chen et al. 2024): tiles of an image to
rows of its decoder."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from agents.engines.components.unit import EncoderUnit
from agents.engines.components.unit_kinds import Tiles
from agents.engines.torch_components.encoder_layer import EncoderLayer, FullAttention, all_rows, patch_projection
from agents.engines.torch_components.pixel_patches import pixel_patches
from agents.engines.torch_components.read_encoder import ReadEncoder, placed
from agents.engines.torch_components.segments import Segments
from agents.engines.torch_engine.layer_reader import LayerReader
from agents.engines.torch_engine.linear import Linear, Projection
from agents.engines.torch_engine.norm import Norm
from agents.engines.torch_engine.whisper_layers import GeluMlp
from templates_lib.models.config_fields import Fields, UnsupportedModelError

_CONNECTOR_EPSILON = 1e-5


@dataclass(frozen=True, slots=True, eq=False)
class InternVision:
    embed: Linear
    class_row: torch.Tensor
    """(hidden,): the first row of each tile."""
    positions: torch.Tensor | None
    """(1 + patches, hidden)"""
    layers: tuple[EncoderLayer, ...]
    norm: Norm | None
    connector_norm: Norm
    connector: Projection
    patch: int
    side: int
    """Patches of a tile, a side."""
    merge: int
    """Neighbouring patches that become one row, a side."""
    like: torch.Tensor

    def __call__(self, units: Sequence[EncoderUnit]) -> list[torch.Tensor]:
        """Tiles → (tiles × (side / merge)², width) each."""
        tiles = torch.cat(placed(units, self.like))
        patches = self.embed(pixel_patches(tiles, self.patch).flatten(0, 1)).view(len(tiles), self.side**2, -1)
        rows = torch.cat((self.class_row.expand(len(tiles), 1, -1), patches), dim=1)
        if self.positions is not None:
            rows = rows + self.positions
        length = rows.shape[1]
        segments = Segments([length] * len(tiles), rows.device)
        rows = rows.flatten(0, 1)
        for layer in self.layers:
            rows = layer(rows, segments)
        if self.norm is not None:
            rows = self.norm(rows)
        grid = rows.view(len(tiles), length, -1)[:, 1:]
        made = self.connector(self.connector_norm(self._merged(grid)))
        each = (self.side // self.merge) ** 2
        return list(torch.split(made, [len(unit.values) * each for unit in units]))

    def _merged(self, patches: torch.Tensor) -> torch.Tensor:
        """(tiles, side², hidden) → (rows, merge² × hidden): neighbours behind each other."""
        cut = (self.side // self.merge, self.merge)
        grid = patches.reshape(len(patches), *cut, *cut, -1)
        return grid.transpose(2, 3).reshape(len(patches) * cut[0] ** 2, -1)


def read_intern_vision(root: Fields, reader: LayerReader) -> ReadEncoder:
    """`vision_tower.` and `multi_modal_projector.` of the checkpoint, as transformers publishes InternVL3 (`-hf`)."""
    fields, text = root.part("vision_config"), root.part("text_config")
    _refuse_variants(root, fields)
    hidden, ffn = fields.integer("hidden_size", low=1), fields.integer("intermediate_size", low=1)
    heads, width = fields.integer("num_attention_heads", low=1), text.integer("hidden_size", low=1)
    if hidden % heads:
        raise UnsupportedModelError(f"{fields.prefix}num_attention_heads", f"{heads} heads do not divide {hidden}")
    patch, pixels = _square(fields, "patch_size"), _square(fields, "image_size")
    channels = fields.integer("num_channels", 3, low=1, high=64)
    side, merge = pixels // patch, round(1 / root.number("downsample_ratio", 0.01, 1.0))
    if pixels % patch or side % merge:
        raise UnsupportedModelError(f"{fields.prefix}image_size", f"{pixels} pixels are no {merge} × {patch} pixels")
    tower, connector = reader.under("vision_tower."), reader.under("multi_modal_projector.")
    joined, epsilon = merge**2 * hidden, fields.number("layer_norm_eps", 0.0, 1.0)
    layers = fields.integer("num_hidden_layers", low=1, high=1024)
    positions = None
    if fields.flag("use_absolute_position_embeddings", default=True):
        positions = tower.tensor("embeddings.position_embeddings", (1, 1 + side**2, hidden))[0]
    vision = InternVision(
        embed=patch_projection(
            tower, "embeddings.patch_embeddings.projection", (hidden, channels, patch, patch), bias=True
        ),
        class_row=tower.tensor("embeddings.cls_token", (1, 1, hidden))[0, 0],
        positions=positions,
        layers=tuple(
            _layer(tower.under(f"encoder.layer.{i}."), fields, hidden, heads, ffn, epsilon) for i in range(layers)
        ),
        norm=(
            None if fields.flag("use_mean_pooling", default=True) else tower.layer_norm("layernorm", hidden, epsilon)
        ),
        connector_norm=connector.layer_norm("layer_norm", joined, _CONNECTOR_EPSILON),
        connector=GeluMlp(
            connector.whole("linear_1", width, joined, bias=True), connector.whole("linear_2", width, width, bias=True)
        ),
        patch=patch,
        side=side,
        merge=merge,
        like=reader.like,
    )
    takes = Tiles(channels, pixels, side**2, (side // merge) ** 2)
    return ReadEncoder(takes, width, vision, hidden, ffn)


def _refuse_variants(root: Fields, fields: Fields) -> None:
    for where, key in ((fields, "hidden_act"), (root, "projector_hidden_act")):
        if where.text(key, "gelu") != "gelu":
            raise UnsupportedModelError(where.prefix + key, "only gelu is known")
    if root.raw.get("vision_feature_layer", -1) != -1:
        raise UnsupportedModelError("vision_feature_layer", "only rows of the last layer are known")
    if root.text("vision_feature_select_strategy", "default") != "default":
        raise UnsupportedModelError("vision_feature_select_strategy", "only `default` (no row of the class) is known")


def _square(fields: Fields, key: str) -> int:
    """A side that is written once, or for height and width alike."""
    if not isinstance(fields.raw.get(key), list):
        return fields.integer(key, low=1)
    sides = fields.integers(key, limit=2)
    if len(set(sides)) != 1 or not sides[0]:
        raise UnsupportedModelError(fields.prefix + key, "only squares are known")
    return sides[0]


def _layer(reader: LayerReader, fields: Fields, hidden: int, heads: int, ffn: int, epsilon: float) -> EncoderLayer:
    is_rms, own = fields.text("norm_type", "layer_norm") == "rms_norm", reader.under("attention.")

    def norm(name: str) -> Norm:
        if is_rms:
            return reader.norm(name, hidden, epsilon, late_cast=False)
        return reader.layer_norm(name, hidden, epsilon)

    has_norms = fields.flag("use_qk_norm", default=False)
    attention = FullAttention(
        query_key_value=own.into(
            ("q_proj", "k_proj", "v_proj"),
            all_rows(hidden, hidden, hidden),
            hidden,
            bias=fields.flag("attention_bias", default=False),
        ),
        output=own.whole("projection_layer", hidden, hidden, bias=True),
        heads=heads,
        query_norm=own.norm("q_norm", hidden, 1e-6, late_cast=False) if has_norms else None,
        key_norm=own.norm("k_norm", hidden, 1e-6, late_cast=False) if has_norms else None,
    )
    feed_forward = GeluMlp(
        reader.whole("mlp.fc1", ffn, hidden, bias=True), reader.whole("mlp.fc2", hidden, ffn, bias=True)
    )
    return EncoderLayer(
        attention_norm=norm("layernorm_before"),
        attention=attention,
        feed_forward_norm=norm("layernorm_after"),
        feed_forward=feed_forward,
        attention_scale=reader.tensor("lambda_1", (hidden,)),
        feed_forward_scale=reader.tensor("lambda_2", (hidden,)),
    )
