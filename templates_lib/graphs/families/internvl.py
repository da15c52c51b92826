"""InternVL3: a vision transformer over tiles of an image, a projector, and a text decoder."""

from templates_lib.graphs.component import Component
from templates_lib.graphs.families.parts import (
    MOST_LAYERS,
    WIDEST,
    decoder_model,
    heads_of,
    image_encoder,
    layer,
    text_decoder,
)
from templates_lib.graphs.families.qwen_vl import LANGUAGE, VISION
from templates_lib.graphs.model_graph import GraphEdge, ModelGraph
from templates_lib.graphs.network import Network, Product, Stack
from templates_lib.models.config_fields import Fields, UnsupportedModelError


def internvl(fields: Fields, id: str, revision: str) -> ModelGraph:  # noqa: A002
    model = decoder_model(fields.part("llm_config"), id, revision)
    vision = _vision(fields, fields.part("vision_config"), model.hidden_size)
    edge = GraphEdge(VISION, LANGUAGE, model.hidden_size, required=False)
    return ModelGraph(id, revision, (vision, text_decoder(LANGUAGE, model)), (edge,))


def _vision(root: Fields, fields: Fields, given: int) -> Component:
    """Each tile is an image of its own to the transformer; `downsample_ratio` says how many patches become a token."""
    width, inner = fields.integer("hidden_size", low=1, high=WIDEST), fields.integer("intermediate_size", 1, 1, WIDEST)
    heads, head_dim = heads_of(fields, "num_attention_heads", width)
    image, patch = fields.integer("image_size", low=1, high=1 << 14), fields.integer("patch_size", low=1, high=256)
    if image < patch:
        raise UnsupportedModelError(f"{fields.prefix}image_size", f"{image} is less than a patch of {patch}")
    patches = (image // patch) ** 2
    merge = round(root.number("downsample_ratio", 1 / 64, 1.0) ** -2)
    rows = patches + 1  # a class token goes along, and is left out at the end
    normed = 2 * width if fields.flag("qk_normalization", default=False) else 0
    norm = 1 if fields.text("norm_type", "layer_norm") == "rms_norm" else 2
    biases = (3 * width if fields.flag("qkv_bias", default=True) else 0) + width + inner + width
    vectors = biases + normed + 2 * norm * width + 2 * width  # two norms, two scales of what layers add
    layers = fields.integer("num_hidden_layers", low=1, high=MOST_LAYERS)
    merged = merge * width
    outside = (
        Product(width, fields.integer("num_channels", 3, 1, 64) * patch * patch, rows=patches / rows),
        Product(given, merged, rows=patches / merge / rows),
        Product(given, given, rows=patches / merge / rows),
    )
    other = width + (rows + 1) * width + 2 * merged + 2 * given  # bias, positions and class token, norm, biases
    stack = Stack(layers, layer(width, inner), heads, head_dim, rows, vectors)
    return image_encoder(VISION, Network(rows * merge / patches, (stack,), outside, other), given)
