"""InternVL 2.5 and 3, NVLM-D: a vision transformer over tiles of an image, a projector, and a text decoder.

Configs are of two forms: the publisher's own (`internvl_chat`), and that of transformers (`internvl`, models named
`-hf`), which has other names for the same."""

from templates_lib.graphs.component import Component
from templates_lib.graphs.families.parts import (
    MOST_LAYERS,
    PREPROCESSOR,
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
from templates_lib.media.aspect_tiles import AROUND, AspectTiles
from templates_lib.models.config_fields import Fields, UnsupportedModelError
from templates_lib.models.model_spec import ModelSpec

NVLM_SPARE_HEADS = 7
"""Heads of NVLM-D's vision transformer beside those of its config, which make their number one that GPUs divide."""


def internvl(fields: Fields, id: str, revision: str) -> ModelGraph:  # noqa: A002
    return _graph(fields, id, revision, is_nvlm=False)


def nvlm_d(fields: Fields, id: str, revision: str) -> ModelGraph:  # noqa: A002
    """NVLM-D: spare heads, and a projector as wide inside as the decoder's feed-forward blocks, without biases."""
    return _graph(fields, id, revision, is_nvlm=True)


def internvl_hf(fields: Fields, id: str, revision: str) -> ModelGraph:  # noqa: A002
    """How pictures are cut stands in the preprocessor_config.json beside it, if it does."""
    model = decoder_model(fields.part("text_config"), id, revision)
    vision = _vision(fields, _renamed(fields.part("vision_config")), model, is_nvlm=False)
    edge = GraphEdge(VISION, LANGUAGE, model.hidden_size, required=False)
    return ModelGraph(id, revision, (vision, text_decoder(LANGUAGE, model)), (edge,))


def _renamed(fields: Fields) -> Fields:
    names = {"qk_normalization": "use_qk_norm", "qkv_bias": "attention_bias"}
    raw = fields.raw | {own: fields.flag(theirs, default=False) for own, theirs in names.items()}
    for key in ("image_size", "patch_size"):
        if isinstance(raw.get(key), list):
            sides = fields.integers(key, limit=2)
            if len(set(sides)) != 1:
                raise UnsupportedModelError(f"{fields.prefix}{key}", "only squares are known")
            raw[key] = sides[0]
    return Fields(raw, fields.prefix)


def _graph(fields: Fields, id: str, revision: str, *, is_nvlm: bool) -> ModelGraph:  # noqa: A002
    model = decoder_model(fields.part("llm_config"), id, revision)
    vision = _vision(fields, fields.part("vision_config"), model, is_nvlm=is_nvlm)
    edge = GraphEdge(VISION, LANGUAGE, model.hidden_size, required=False)
    return ModelGraph(id, revision, (vision, text_decoder(LANGUAGE, model)), (edge,))


def _vision(root: Fields, fields: Fields, model: ModelSpec, *, is_nvlm: bool) -> Component:
    """Each tile is an image of its own to the transformer; `downsample_ratio` says how many patches become a token."""
    width, inner = fields.integer("hidden_size", low=1, high=WIDEST), fields.integer("intermediate_size", 1, 1, WIDEST)
    heads, head_dim = heads_of(fields, "num_attention_heads", width)
    image, patch = fields.integer("image_size", low=1, high=1 << 14), fields.integer("patch_size", low=1, high=256)
    if image < patch:
        raise UnsupportedModelError(f"{fields.prefix}image_size", f"{image} is less than a patch of {patch}")
    patches = (image // patch) ** 2
    merge = round(root.number("downsample_ratio", 1 / 64, 1.0) ** -2)
    rows = patches + 1  # a class token goes along, and is left out at the end
    given, spare = model.hidden_size, NVLM_SPARE_HEADS if is_nvlm else 0
    head_width = (heads + spare) * head_dim
    normed = 2 * head_width if fields.flag("qk_normalization", default=False) else 0
    norm = 1 if fields.text("norm_type", "layer_norm") == "rms_norm" else 2
    biases = (3 * head_width if fields.flag("qkv_bias", default=True) else 0) + width + inner + width
    vectors = biases + normed + 2 * norm * width + 2 * width  # two norms, two scales of what layers add
    layers = fields.integer("num_hidden_layers", low=1, high=MOST_LAYERS)
    merged, between = merge * width, model.intermediate_size if is_nvlm else given
    outside = (
        Product(width, fields.integer("num_channels", 3, 1, 64) * patch * patch, rows=patches / rows),
        Product(between, merged, rows=patches / merge / rows),
        Product(given, between, rows=patches / merge / rows),
    )
    other = width + (rows + 1) * width + 2 * merged  # bias, positions and class token, norm
    other += 0 if is_nvlm else 2 * given  # biases
    stack = Stack(layers, layer(width, inner, head_width=head_width), heads + spare, head_dim, rows, vectors)
    network = Network(rows * merge / patches, (stack,), outside, other)
    return image_encoder(VISION, network, given, _tiles(root, image, patches // merge))


def _tiles(root: Fields, tile: int, tokens: int) -> AspectTiles:
    if root.table("text_config") is not None:
        return _tiles_hf(root, tile, tokens)
    if not root.flag("dynamic_image_size", default=True):
        return AspectTiles(tile, 1, 1, tokens)
    most = root.integer("max_dynamic_patch", 12, low=1, high=256)
    fewest = root.integer("min_dynamic_patch", 1, low=1, high=most)
    return AspectTiles(tile, fewest, most, tokens, with_whole=root.flag("use_thumbnail", default=True))


def _tiles_hf(root: Fields, tile: int, tokens: int) -> AspectTiles:
    """As `InternVLProcessor` has them cut. `tokens_around`, a key of ours, is for models whose prompts have nothing
    around a picture."""
    said = root.table(PREPROCESSOR)
    look = Fields({} if said is None else said, f"{PREPROCESSOR}.")
    around = look.integer("tokens_around", AROUND, 0, 16)
    if not look.flag("crop_to_patches", default=True):
        return AspectTiles(tile, 1, 1, tokens, around=around)
    most = look.integer("max_patches", 12, 1, 256)
    return AspectTiles(tile, look.integer("min_patches", 1, 1, most), most, tokens, around=around)
