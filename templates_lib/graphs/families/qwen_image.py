"""Qwen-Image: a text decoder whose hidden rows steer a diffusion transformer of two streams, and an autoencoder.

Models of diffusers have a config.json a folder; here each is under its name, beside model_index.json's
`_class_name`.
"""

from templates_lib.graphs.component import Component, DecoderSpec, GeneratorSpec, Modality
from templates_lib.graphs.families.parts import (
    MOST_LAYERS,
    WIDEST,
    decoder_model,
    layer,
    same_width,
    whole_numbers,
)
from templates_lib.graphs.families.qwen_omni import TIME_WIDTH
from templates_lib.graphs.model_graph import GraphEdge, ModelGraph
from templates_lib.graphs.network import Network, Product, Rows, Stack
from templates_lib.models.config_fields import Fields
from templates_lib.values.work import Unit

TEXT, PICTURE = "text", "picture"
TAPS = 27
"""Of a causal convolution over three frames of three by three pixels. A lone image has its two earlier frames padded,
and they are multiplied all the same."""


def qwen_image(fields: Fields, id: str, revision: str) -> ModelGraph:  # noqa: A002
    model = decoder_model(fields.part("text_encoder"), id, revision)
    transformer, vae = fields.part("transformer"), fields.part("vae")
    given = same_width(transformer, "joint_attention_dim", model.hidden_size, "the text encoder's hidden state")
    patch = transformer.integer("patch_size", low=1, high=16)
    spec = picture_spec(transformer, vae, given, patch)
    text = Component(TEXT, Unit.PROMPT_TOKEN, DecoderSpec(model), gives=given, reads=Modality.TEXT)
    picture = Component(PICTURE, Unit.DENOISING_STEP, spec, given, answers=Modality.IMAGE)
    return ModelGraph(id, revision, (text, picture), (GraphEdge(TEXT, PICTURE, given),))


def picture_spec(transformer: Fields, vae: Fields, text_width: int, patch: int) -> GeneratorSpec:
    """`text_width`: of the rows that steer it; `patch`: latents of a side that are a row."""
    # Each stage of the autoencoder but one halves the image.
    across = patch * 2 ** (len(whole_numbers(vae, "dim_mult")) - 1)
    denoiser = _denoiser(transformer, text_width, patch)
    return GeneratorSpec(_autoencoder(vae, patch), denoiser, pixels_per_row=across * across)


def _denoiser(fields: Fields, text_width: int, patch: int) -> Network:
    """Blocks of two streams, latents and text, with weights of their own, that attend to each other (MMDiT)."""
    heads, head_dim = (
        fields.integer("num_attention_heads", low=1, high=4096),
        fields.integer("attention_head_dim", 1, 1),
    )
    width, channels = heads * head_dim, fields.integer("in_channels", low=1, high=WIDEST)
    modulation = Product(6 * width, width, of=Rows.ITEM, count=2)
    products = (*layer(width, 4 * width), *layer(width, 4 * width, of=Rows.CONTEXT), modulation)
    vectors = 2 * (4 * width + 5 * width + 6 * width + 2 * head_dim)
    stack = Stack(fields.integer("num_layers", low=1, high=MOST_LAYERS), products, heads, head_dim, 0, vectors)
    outside = (
        Product(width, channels),
        Product(width, text_width, of=Rows.CONTEXT),
        Product(width, TIME_WIDTH, of=Rows.ITEM),
        Product(3 * width, width, of=Rows.ITEM),  # the time's second product, and the last norm's scale and shift
        Product(patch * patch * fields.integer("out_channels", low=1, high=WIDEST), width),
    )
    return Network(1.0, (stack,), outside, 6 * width + text_width)


def _autoencoder(fields: Fields, patch: int) -> Network:
    """The half that makes pixels of latents: stages of residual blocks, each but the last followed by one that doubles
    height and width (AutoencoderKLQwenImage's decoder in diffusers)."""
    base, blocks = fields.integer("base_dim", low=2, high=WIDEST), fields.integer("num_res_blocks", low=1, high=64)
    widths = [base * times for times in reversed(whole_numbers(fields, "dim_mult"))]
    latents, top = fields.integer("z_dim", low=1, high=WIDEST), widths[0]
    rows = float(patch * patch)
    products = [
        Product(top, TAPS * latents, rows=rows),
        Product(top, TAPS * top, rows=rows, count=4),
        Product(4 * top, top, rows=rows),  # attention of the middle block
    ]
    entering = top
    for number, width in enumerate(widths):
        products.append(Product(width, TAPS * entering, rows=rows))
        products.append(Product(width, TAPS * width, rows=rows, count=2 * blocks + 1))
        if number + 1 < len(widths):
            rows *= 4
            entering = width // 2
            products.append(Product(entering, 9 * width, rows=rows))
    products.append(Product(3, TAPS * widths[-1], rows=rows))
    return Network(1.0, (), tuple(products))
