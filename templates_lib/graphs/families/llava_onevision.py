"""LLaVA-OneVision: SigLIP over tiles of an image, a projector, and a text decoder."""

from templates_lib.graphs.families.parts import WIDEST, decoder_model, image_encoder, text_decoder
from templates_lib.graphs.families.qwen_vl import LANGUAGE, VISION
from templates_lib.graphs.families.siglip import patches_across, siglip, tile_side
from templates_lib.graphs.model_graph import GraphEdge, ModelGraph
from templates_lib.graphs.network import Product
from templates_lib.media.anyres_tiles import AnyresTiles
from templates_lib.models.config_fields import Fields, UnsupportedModelError

ANYRES = "anyres_max_"
MOST_RESOLUTIONS = 256


def llava_onevision(fields: Fields, id: str, revision: str) -> ModelGraph:  # noqa: A002
    model = decoder_model(fields.part("text_config"), id, revision)
    given, seen = model.hidden_size, fields.part("vision_config")
    width = seen.integer("hidden_size", low=1, high=WIDEST)
    connector = (Product(given, width), Product(given, given))
    network = siglip(seen, connector, 1, 3 * given)  # two biases, and the row that ends a line
    vision = image_encoder(VISION, network, given, _tiles(fields, seen))
    edge = GraphEdge(VISION, LANGUAGE, given, required=False)
    return ModelGraph(id, revision, (vision, text_decoder(LANGUAGE, model)), (edge,))


def _tiles(fields: Fields, seen: Fields) -> AnyresTiles:
    tile = tile_side(seen)
    aspect = fields.text("vision_aspect_ratio", f"{ANYRES}9")
    most = aspect.removeprefix(ANYRES)
    if not aspect.startswith(ANYRES) or not most.isdecimal() or not 1 <= int(most) <= 1024:
        raise UnsupportedModelError(f"{fields.prefix}vision_aspect_ratio", f"must be {ANYRES}N, N from 1 to 1024")
    return AnyresTiles(tile, patches_across(seen), _resolutions(fields, tile), int(most))


def _resolutions(fields: Fields, tile: int) -> tuple[tuple[int, int], ...]:
    """Heights and widths of canvases, each whole tiles. Raises UnsupportedModelError."""
    given = fields.raw.get("image_grid_pinpoints")
    listed = given if isinstance(given, list) and len(given) <= MOST_RESOLUTIONS else []
    sides = [tuple(each) if isinstance(each, list) else () for each in listed]
    if not sides or any(len(pair) != 2 or not all(_is_whole(side, tile) for side in pair) for pair in sides):
        why = f"must be a list of up to {MOST_RESOLUTIONS} pairs of height and width, each a multiple of {tile}"
        raise UnsupportedModelError(f"{fields.prefix}image_grid_pinpoints", why)
    return tuple((height, width) for height, width in sides)


def _is_whole(side: object, tile: int) -> bool:
    return type(side) is int and 0 < side <= 1 << 16 and side % tile == 0
