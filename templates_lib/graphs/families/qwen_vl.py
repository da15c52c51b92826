"""Qwen2.5-VL: a vision encoder with windowed attention, and a decoder that takes its rows into the prompt."""

from templates_lib.graphs.component import Component
from templates_lib.graphs.families.parts import (
    MOST_LAYERS,
    WIDEST,
    decoder_model,
    heads_of,
    image_encoder,
    layer,
    merge_of,
    patch_depth,
    patch_grid,
    same_width,
    text_decoder,
)
from templates_lib.graphs.model_graph import GraphEdge, ModelGraph
from templates_lib.graphs.network import Network, Product, Stack
from templates_lib.models.config_fields import Fields

VISION, LANGUAGE = "vision", "language"


def qwen2_5_vl(fields: Fields, id: str, revision: str) -> ModelGraph:  # noqa: A002
    model = decoder_model(fields, id, revision)
    vision = qwen2_5_vision(fields, fields.part("vision_config"), model.hidden_size)
    edge = GraphEdge(VISION, LANGUAGE, model.hidden_size, required=False)
    return ModelGraph(id, revision, (vision, text_decoder(LANGUAGE, model)), (edge,))


def qwen2_5_vision(root: Fields, fields: Fields, width_taken: int) -> Component:
    """The vision encoder: most layers attend within windows of `window_size` pixels, some to the whole image."""
    width, inner = fields.integer("hidden_size", low=1, high=WIDEST), fields.integer("intermediate_size", 1, 1, WIDEST)
    heads, head_dim = heads_of(fields, "num_heads", width)
    layers, whole = fields.integer("depth", low=1, high=MOST_LAYERS), len(fields.integers("fullatt_block_indexes", 512))
    across = fields.integer("window_size", low=1, high=1 << 16) // fields.integer("patch_size", low=1, high=256)
    merge, given = merge_of(fields), same_width(fields, "out_hidden_size", width_taken, "the decoder")
    products = layer(width, inner, gated=True)
    vectors = 4 * width + 2 * inner + width + 2 * width  # biases of attention and feed-forward, two norms
    stacks = (
        Stack(max(layers - whole, 0), products, heads, head_dim, across * across, vectors),
        Stack(min(whole, layers), products, heads, head_dim, 0, vectors),
    )
    merged = merge * width
    outside = (
        Product(width, patch_depth(fields)),
        Product(merged, merged, rows=1 / merge),
        Product(given, merged, rows=1 / merge),
    )
    network = Network(merge, stacks, outside, width + merged + given)
    return image_encoder(VISION, network, given, patch_grid(root, fields))
