"""Kokoro (after StyleTTS 2): text as phonemes to sound, in one component.

A text encoder and a predictor of durations and pitch make 40 rows a second; blocks of convolutions and an inverse
Fourier transform make samples of these (`kokoro/model.py`, `istftnet.py` and `modules.py` of hexgrad/kokoro). Where the
config of a conversion for onnxruntime says no sizes, they are those of Kokoro-82M, the only size that is published.
"""

from typing import Any

from templates_lib.graphs.component import Component, GeneratorSpec, Modality
from templates_lib.graphs.families.parts import MOST_LAYERS, WIDEST, layer, whole_numbers
from templates_lib.graphs.model_graph import ModelGraph
from templates_lib.graphs.network import Network, Product, Rows, Stack
from templates_lib.models.config_fields import Fields, UnsupportedModelError
from templates_lib.values.work import Unit

VOICE = "voice"
_OF_82M: dict[str, Any] = {
    "hidden_dim": 512,
    "style_dim": 128,
    "n_layer": 3,
    "n_token": 178,
    "max_dur": 50,
    "text_encoder_kernel_size": 5,
    "istftnet": {
        "upsample_kernel_sizes": [20, 12],
        "upsample_rates": [10, 6],
        "gen_istft_hop_size": 5,
        "gen_istft_n_fft": 20,
        "resblock_kernel_sizes": [3, 7, 11],
        "upsample_initial_channel": 512,
    },
    "plbert": {
        "hidden_size": 768,
        "num_attention_heads": 12,
        "intermediate_size": 2048,
        "max_position_embeddings": 512,
        "num_hidden_layers": 12,
    },
}
_ROWS_PER_S = 40
_EMBEDDED = 128
"""Width of a phoneme's embedding (ALBERT's)."""
_WIDE, _BESIDE = 1024, 64
"""Channels of the decoder's blocks, and of the text's rows beside them."""
_TOKENS_PER_ROW = 0.35
"""Phonemes for each row: about 14 a second are spoken."""


def kokoro(fields: Fields, id: str, revision: str) -> ModelGraph:  # noqa: A002
    said = Fields(_OF_82M | fields.raw, fields.prefix)
    spec = GeneratorSpec(_network(said))
    voice = Component(VOICE, Unit.AUDIO_SECOND, spec, reads=Modality.TEXT, answers=Modality.AUDIO)
    return ModelGraph(id, revision, (voice,), ())


def _network(fields: Fields) -> Network:
    """Layers of the text encoder share their weights: they are computed `num_hidden_layers` times, and held once."""
    hidden = fields.integer("hidden_dim", low=2, high=WIDEST)
    style = fields.integer("style_dim", low=1, high=WIDEST)
    bert = fields.part("plbert")
    width, layers = bert.integer("hidden_size", low=1, high=WIDEST), bert.integer("num_hidden_layers", 12, 1, 1024)
    inner, heads = bert.integer("intermediate_size", low=1, high=WIDEST), bert.integer("num_attention_heads", 12, 1)
    one = tuple(_thinned(each, layers) for each in layer(width, inner))
    stack = Stack(1, one, heads, max(width // heads, 1), vectors=2 * width)
    embedded = bert.integer("max_position_embeddings", low=1, high=1 << 16) + fields.integer("n_token", low=1)
    text = (Product(width, _EMBEDDED, rows=_TOKENS_PER_ROW), Product(hidden, width, rows=_TOKENS_PER_ROW))
    products = (*text, *_predictor(fields, hidden, style), *_decoder(fields.part("istftnet"), hidden, style))
    # Held, and not computed with: both tables of phonemes, and what pools the text encoder's rows.
    other = embedded * _EMBEDDED + fields.integer("n_token", low=1) * hidden + width * width
    return Network(_ROWS_PER_S, (stack,), products, other)


def _thinned(product: Product, layers: int) -> Product:
    """A layer's product, computed by all layers for phonemes, of which there are fewer than rows."""
    return Product(product.columns, product.depth, rows=layers * _TOKENS_PER_ROW)


def _predictor(fields: Fields, hidden: int, style: int) -> tuple[Product, ...]:
    """The encoder of phonemes, and what predicts durations, pitch and loudness: recurrent layers of both directions,
    whose four gates read a row and the state before it."""
    layers = fields.integer("n_layer", low=1, high=MOST_LAYERS)
    taps = fields.integer("text_encoder_kernel_size", low=1, high=64)

    def both_ways(reads: int, rows: float, count: int = 1) -> tuple[Product, ...]:
        return (
            Product(4 * hidden, reads, rows=rows, count=count),
            Product(4 * hidden, hidden // 2, rows=rows, count=count),
        )

    durations_of = Product(fields.integer("max_dur", low=1, high=1 << 16), hidden, rows=_TOKENS_PER_ROW)
    scaled = Product(2 * hidden, style, of=Rows.ITEM, count=layers)
    convolved = Product(hidden, taps * hidden, rows=_TOKENS_PER_ROW, count=layers)
    durations = both_ways(hidden + style, _TOKENS_PER_ROW, layers + 1)
    # Pitch and loudness have three blocks each, the second of which doubles the rows and halves the channels.
    half = hidden // 2
    pitch = (
        *_block(hidden, hidden, style, 1.0, 2),
        *_block(hidden, half, style, 2.0, 2),
        *_block(half, half, style, 2.0, 2),
    )
    return (
        convolved,
        durations_of,
        scaled,
        *both_ways(hidden, _TOKENS_PER_ROW),
        *durations,
        *both_ways(hidden + style, 1.0),
        *pitch,
    )


def _block(reads: int, gives: int, style: int, rows: float, count: int = 1) -> tuple[Product, ...]:
    """A residual block of two convolutions of three taps, whose scale and shift are made of the style."""
    shortcut = () if reads == gives else (Product(gives, reads, rows=rows, count=count),)
    return (
        Product(gives, 3 * reads, rows=rows, count=count),
        Product(gives, 3 * gives, rows=rows, count=count),
        Product(2 * (reads + gives), style, of=Rows.ITEM, count=count),
        *shortcut,
    )


def _decoder(fields: Fields, hidden: int, style: int) -> tuple[Product, ...]:
    rates, kernels = whole_numbers(fields, "upsample_rates"), whole_numbers(fields, "upsample_kernel_sizes")
    if len(kernels) != len(rates):
        key = f"{fields.prefix}upsample_kernel_sizes"
        raise UnsupportedModelError(key, f"has {len(kernels)} entries for {len(rates)} of upsample_rates")
    sizes, channels = whole_numbers(fields, "resblock_kernel_sizes"), fields.integer("upsample_initial_channel", low=2)
    bins = fields.integer("gen_istft_n_fft", low=2, high=1 << 16) + 2
    beside = _WIDE + 2 + _BESIDE
    products = [
        *_block(hidden + 2, _WIDE, style, 1.0),
        *_block(beside, _WIDE, style, 1.0, 3),
        *_block(beside, channels, style, 2.0),
        Product(_BESIDE, hidden),
    ]
    rows = 2
    for number, (rate, kernel) in enumerate(zip(rates, kernels, strict=True)):
        products.append(Product(channels // 2 * kernel, channels, rows=rows))
        channels, rows = channels // 2, rows * rate
        last = number + 1 == len(rates)
        products.append(Product(channels, bins * (1 if last else 2 * rates[-1]), rows=rows))
        # The source's own block, and one of each size: three dilations of two convolutions.
        of_stage = (*sizes, 11 if last else 7)
        products += [Product(channels, channels * size, rows=rows, count=6) for size in of_stage]
        products.append(Product(2 * channels, style, of=Rows.ITEM, count=6 * len(of_stage)))
    return (*products, Product(bins, 7 * channels, rows=rows))
