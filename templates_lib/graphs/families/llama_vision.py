"""Llama 3.2 Vision: a vision transformer over tiles of an image, and a decoder some of whose layers attend to it."""

from dataclasses import replace

from templates_lib.graphs.component import Component, DecoderSpec, Modality
from templates_lib.graphs.families.parts import (
    MOST_LAYERS,
    WIDEST,
    decoder_model,
    heads_of,
    image_encoder,
    layer,
)
from templates_lib.graphs.families.qwen_vl import LANGUAGE, VISION
from templates_lib.graphs.families.siglip import patches_across, tile_side
from templates_lib.graphs.model_graph import GraphEdge, ModelGraph
from templates_lib.graphs.network import Network, Product, Stack
from templates_lib.media.canvas_tiles import CanvasTiles
from templates_lib.models.config_fields import Fields, UnsupportedModelError
from templates_lib.models.model_spec import ModelSpec
from templates_lib.values.work import Unit

ROWS_ALONG = 8
"""Rows of a tile are padded to a multiple of this (modelling code)."""
EXTRA_EMBEDDINGS = 8
"""Of the image token and its like, which the head cannot write (modelling code)."""


def llama_vision(fields: Fields, id: str, revision: str) -> ModelGraph:  # noqa: A002
    text = fields.part("text_config")
    model, crossing = _decoder(text, id, revision)
    vision = _vision(fields.part("vision_config"), model.hidden_size)
    spec = DecoderSpec(
        model,
        cross_share=crossing / (model.layers - crossing),
        other_weight_bytes=2.0 * EXTRA_EMBEDDINGS * model.hidden_size,
    )
    width, reads = model.hidden_size, Modality.TEXT
    language = Component(LANGUAGE, Unit.OUTPUT_TOKEN, spec, width, reads=reads, answers=Modality.TEXT)
    return ModelGraph(id, revision, (vision, language), (GraphEdge(VISION, LANGUAGE, width, required=False),))


def _decoder(fields: Fields, id: str, revision: str) -> tuple[ModelSpec, int]:  # noqa: A002
    """The decoder, and how many of its layers attend to images: they are as large as the others, and keep no text in
    the KV cache, which is said as a window of one token, the least that there is."""
    model = decoder_model(fields, id, revision)
    crossing = frozenset(fields.integers("cross_attention_layers", MOST_LAYERS))
    if not crossing or max(crossing) >= model.layers or len(crossing) >= model.layers:
        why = f"must name some of the {model.layers} layers, counted from 0"
        raise UnsupportedModelError(f"{fields.prefix}cross_attention_layers", why)
    windows = tuple(1 if n in crossing else window for n, window in enumerate(model.windows))
    return replace(model, windows=windows), len(crossing)


def _vision(fields: Fields, given: int) -> Component:
    """Tiles of an image see each other in all layers. What some layers give goes to the decoder beside what the last
    one does."""
    width, inner = fields.integer("hidden_size", low=1, high=WIDEST), fields.integer("intermediate_size", 1, 1, WIDEST)
    heads, head_dim = heads_of(fields, fields.name_of("attention_heads") or "num_attention_heads", width)
    patches, patch = patches_across(fields) ** 2, fields.integer("patch_size", low=1, high=256)
    tokens, most = patches + 1, fields.integer("max_num_tiles", 4, low=1, high=64)  # a class token is the first
    rows = -(-tokens // ROWS_ALONG) * ROWS_ALONG
    kept = len(fields.integers("intermediate_layers_indices", MOST_LAYERS)) + 1
    vectors = inner + width + 4 * width  # biases of the feed-forward block, two norms
    products = layer(width, inner)
    local = fields.integer("num_hidden_layers", low=1, high=MOST_LAYERS)
    whole = fields.integer("num_global_layers", low=0, high=MOST_LAYERS)
    stacks = (
        Stack(local, products, heads, head_dim, 0, vectors),
        Stack(whole, products, heads, head_dim, 0, vectors + 2),  # gates of what a layer adds
    )
    outside = (
        Product(width, fields.integer("num_channels", 3, 1, 64) * patch * patch, rows=patches / rows),
        Product(given, kept * width, rows=tokens / rows),
    )
    shapes = _shapes(most) + 1  # of grids of tiles, and of none
    positions = tokens * width + shapes * most * tokens * width + 2 * shapes * most * width
    other = positions + width + 4 * width + given  # class token, norms before and behind, the projector's bias
    network = Network(rows / tokens, stacks, outside, other)
    tiles = CanvasTiles(tile_side(fields), most, tokens)
    return image_encoder(VISION, network, given, tiles)


def _shapes(most: int) -> int:
    """Grids of up to `most` tiles."""
    return sum(most // rows for rows in range(1, most + 1))
