"""Parts that several families share: transformer layers, patch and mel front ends, decoders, stacks of convolutions."""

from templates_lib.graphs.component import Component, DecoderSpec, EncoderSpec, Modality
from templates_lib.graphs.network import Network, Product, Rows, Stack
from templates_lib.media.image_layout import ImageRule
from templates_lib.media.patch_grid import PatchGrid
from templates_lib.models.config_fields import Fields, UnsupportedModelError
from templates_lib.models.hf_config import model_from_hf_config
from templates_lib.models.model_spec import ModelSpec
from templates_lib.values.work import Unit

WIDEST = 1 << 18
MOST_LAYERS = 2048
MEL_FRAMES_PER_S = 100.0
"""Frames of a mel spectrogram a second: one every 10 ms (Whisper's feature extractor, which all of these have)."""

FEWEST_PIXELS, MOST_PIXELS = 56 * 56, 14 * 14 * 4 * 16_384
"""Pixels that a picture is scaled to at least and at most, where nothing else is said (the published processors of
Qwen2.5-VL, Qwen2.5-Omni and Qwen3-Omni)."""
PREPROCESSOR = "preprocessor_config"
"""Key of a config that holds what stands in the file of that name beside it: how large pictures are made."""


def layer(
    width: int, inner: int, *, kv_width: int = 0, head_width: int = 0, gated: bool = False, of: Rows = Rows.OWN
) -> tuple[Product, ...]:
    """Attention and feed-forward products of a layer: rows of `width`, queries of `head_width`, keys of `kv_width`
    (`width`, if not given), a feed-forward block of `inner`."""
    queries = head_width or width
    keys = kv_width or queries
    return (
        Product(queries + 2 * keys, width, of=of),
        Product(width, queries, of=of),
        Product(inner * (2 if gated else 1), width, of=of),
        Product(width, inner, of=of),
    )


def heads_of(fields: Fields, key: str, width: int) -> tuple[int, int]:
    """Heads and their size. Raises UnsupportedModelError where heads do not divide the width."""
    heads = fields.integer(key, low=1, high=4096)
    if width % heads:
        raise UnsupportedModelError(f"{fields.prefix}{key}", f"{heads} heads do not divide a width of {width}")
    return heads, width // heads


def same_width(fields: Fields, key: str, expected: int, of: str) -> int:
    """Read a width that must be another part's. Raises UnsupportedModelError with the key for another."""
    width = fields.integer(key, low=1, high=WIDEST)
    if width != expected:
        raise UnsupportedModelError(f"{fields.prefix}{key}", f"is {width}, but {of} takes rows of {expected}")
    return width


def decoder_model(fields: Fields, id: str, revision: str) -> ModelSpec:  # noqa: A002
    """The decoder that `fields` describe. Raises UnsupportedModelError with the whole path of the key."""
    try:
        return model_from_hf_config(fields.raw, id, revision)
    except UnsupportedModelError as error:
        raise UnsupportedModelError(fields.prefix + error.key, error.why) from None


def text_decoder(name: str, model: ModelSpec, *, gives: int = 0) -> Component:
    """A decoder that reads text and rows of its own width, and answers in text."""
    text = Modality.TEXT
    return Component(name, Unit.OUTPUT_TOKEN, DecoderSpec(model), model.hidden_size, gives, reads=text, answers=text)


def whisper_layers(fields: Fields, *, key_bias: bool = False, window_rows: int = 0) -> Stack:
    """Layers of Whisper's encoder, and of those made after it: all projections but the key's have a bias."""
    width = fields.integer("d_model", low=1, high=WIDEST)
    inner = fields.integer("encoder_ffn_dim", low=1, high=WIDEST)
    heads, head_dim = heads_of(fields, "encoder_attention_heads", width)
    vectors = (4 if key_bias else 3) * width + inner + width + 4 * width
    layers = fields.integer("encoder_layers", low=1, high=MOST_LAYERS)
    return Stack(layers, layer(width, inner), heads, head_dim, window_rows, vectors)


def whisper_front(fields: Fields) -> tuple[Product, ...]:
    """Two convolutions over three mel frames each; the second halves them."""
    width, bins = fields.integer("d_model", low=1, high=WIDEST), fields.integer("num_mel_bins", low=1, high=4096)
    return Product(width, 3 * bins, rows=2), Product(width, 3 * width)


def image_encoder(name: str, network: Network, gives: int, images: ImageRule) -> Component:
    """`images`: how pictures are cut for it."""
    return Component(name, Unit.IMAGE_TOKEN, EncoderSpec(network, images), gives=gives, reads=Modality.IMAGE)


def audio_encoder(name: str, network: Network, gives: int, tokens_per_s: float) -> Component:
    spec = EncoderSpec(network)
    return Component(name, Unit.AUDIO_TOKEN, spec, 0, gives, Modality.AUDIO, None, units_per_second=tokens_per_s)


def optional_part(fields: Fields, key: str) -> Fields:
    """The fields of a table that may be missing: none of them is there then."""
    return Fields(fields.table(key) or {}, f"{fields.prefix}{key}.")


def merge_of(fields: Fields) -> int:
    """Patches that become one token: a square of them."""
    return int(fields.integer("spatial_merge_size", 2, low=1, high=64)) ** 2


def patch_grid(root: Fields, fields: Fields) -> PatchGrid:
    """How Qwen's vision encoders have pictures cut; `root` holds what its preprocessor says, if anything."""
    said = optional_part(root, PREPROCESSOR)
    size = optional_part(said, "size")
    fewest = said.integer("min_pixels", size.integer("shortest_edge", FEWEST_PIXELS, 1, 1 << 30), 1, 1 << 30)
    most = said.integer("max_pixels", size.integer("longest_edge", MOST_PIXELS, fewest, 1 << 30), fewest, 1 << 30)
    patch, merge = fields.integer("patch_size", low=1, high=256), fields.integer("spatial_merge_size", 2, 1, 64)
    return PatchGrid(patch, merge, fewest, most)


def patch_depth(fields: Fields) -> int:
    """Pixels and channels of one patch, over the frames that it spans."""
    patch, frames = fields.integer("patch_size", low=1, high=256), fields.integer("temporal_patch_size", 2, 1, 16)
    return fields.integer("in_channels", 3, low=1, high=64) * frames * patch * patch


def whole_numbers(fields: Fields, key: str, low: int = 1, high: int = 64) -> tuple[int, ...]:
    """Read a list that must be there, each in [low, high]. Raises UnsupportedModelError."""
    values = fields.integers(key, 64)
    if not values or not all(low <= value <= high for value in values):
        raise UnsupportedModelError(f"{fields.prefix}{key}", f"must be a list of whole numbers from {low} to {high}")
    return values
