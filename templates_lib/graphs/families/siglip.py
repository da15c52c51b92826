"""The SigLIP vision transformer, which several families see tiles with: all projections have a bias, no class token."""

from templates_lib.graphs.families.parts import MOST_LAYERS, WIDEST, heads_of, layer
from templates_lib.graphs.network import Network, Product, Stack
from templates_lib.models.config_fields import Fields, UnsupportedModelError


def tile_side(fields: Fields) -> int:
    """Pixels of a side of a tile."""
    return fields.integer("image_size", low=1, high=1 << 14)


def patches_across(fields: Fields) -> int:
    """Patches along a side of a tile. Raises UnsupportedModelError for a tile that is less than one."""
    tile, patch = tile_side(fields), fields.integer("patch_size", low=1, high=256)
    if tile < patch:
        raise UnsupportedModelError(f"{fields.prefix}image_size", f"{tile} is less than a patch of {patch}")
    return tile // patch


def siglip(fields: Fields, connector: tuple[Product, ...], patches_per_token: int, connector_vectors: float) -> Network:
    """The transformer over the patches of each tile, and the `connector` behind it; `connector_vectors`: its biases."""
    width, inner = fields.integer("hidden_size", low=1, high=WIDEST), fields.integer("intermediate_size", 1, 1, WIDEST)
    heads, head_dim = heads_of(fields, "num_attention_heads", width)
    patch, patches = fields.integer("patch_size", low=1, high=256), patches_across(fields) ** 2
    vectors = 4 * width + inner + width + 4 * width  # biases of attention and feed-forward, two norms
    layers = fields.integer("num_hidden_layers", low=1, high=MOST_LAYERS)
    front = Product(width, fields.integer("num_channels", 3, 1, 64) * patch * patch)
    other = width + patches * width + 2 * width + connector_vectors  # bias, positions, last norm
    stack = Stack(layers, layer(width, inner), heads, head_dim, patches, vectors)
    return Network(float(patches_per_token), (stack,), (front, *connector), other)
