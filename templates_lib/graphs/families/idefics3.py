"""Idefics3 and SmolVLM: SigLIP over tiles of an image, squares of whose patches become a token, and a text decoder."""

from templates_lib.graphs.families.parts import (
    PREPROCESSOR,
    WIDEST,
    decoder_model,
    image_encoder,
    optional_part,
    text_decoder,
)
from templates_lib.graphs.families.qwen_vl import LANGUAGE, VISION
from templates_lib.graphs.families.siglip import patches_across, siglip, tile_side
from templates_lib.graphs.model_graph import GraphEdge, ModelGraph
from templates_lib.graphs.network import Product
from templates_lib.media.split_tiles import SplitTiles
from templates_lib.models.config_fields import Fields, UnsupportedModelError

TILES_ALONG = 4
"""Tiles along the longest side of a picture, where nothing else is said (the published processors)."""


def idefics3(fields: Fields, id: str, revision: str) -> ModelGraph:  # noqa: A002
    model = decoder_model(fields, id, revision)
    given, seen = model.hidden_size, fields.part("vision_config")
    width, across = seen.integer("hidden_size", low=1, high=WIDEST), patches_across(seen)
    scale = fields.integer("scale_factor", 2, low=1, high=64)
    if across % scale:
        raise UnsupportedModelError(f"{fields.prefix}scale_factor", f"{scale} does not divide {across} patches a side")
    merged = scale * scale
    network = siglip(seen, (Product(given, merged * width, rows=1 / merged),), merged, 0.0)
    tiles = _tiles(fields, tile_side(seen), (across // scale) ** 2)
    vision = image_encoder(VISION, network, given, tiles)
    edge = GraphEdge(VISION, LANGUAGE, given, required=False)
    return ModelGraph(id, revision, (vision, text_decoder(LANGUAGE, model)), (edge,))


def _tiles(fields: Fields, tile: int, tokens: int) -> SplitTiles:
    said = optional_part(fields, PREPROCESSOR)
    side = optional_part(said, "max_image_size").integer("longest_edge", tile, low=1, high=1 << 14)
    if side != tile:
        key = f"{said.prefix}max_image_size.longest_edge"
        raise UnsupportedModelError(key, f"is {side}, but the encoder sees tiles of {tile}")
    longest = optional_part(said, "size").integer("longest_edge", TILES_ALONG * tile, low=1, high=1 << 16)
    return SplitTiles(tile, longest, tokens)
