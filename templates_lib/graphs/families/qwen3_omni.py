"""Qwen3-Omni: encoders, a thinker and a talker that are mixtures of experts, and a vocoder of convolutions."""

from templates_lib.graphs.component import ELEMENT_BYTES, Component, DecoderSpec, GeneratorSpec, Modality
from templates_lib.graphs.families.parts import (
    MEL_FRAMES_PER_S,
    MOST_LAYERS,
    WIDEST,
    audio_encoder,
    decoder_model,
    heads_of,
    image_encoder,
    layer,
    merge_of,
    patch_depth,
    patch_grid,
    same_width,
    text_decoder,
    whisper_layers,
    whole_numbers,
)
from templates_lib.graphs.families.qwen_omni import HEARING, TALKER, THINKER, VOCODER, omni_edges
from templates_lib.graphs.families.qwen_vl import VISION
from templates_lib.graphs.model_graph import ModelGraph
from templates_lib.graphs.network import Network, Product, Stack
from templates_lib.models.config_fields import Fields
from templates_lib.values.work import Unit

SAMPLES_PER_S = 24_000
"""Of the audio that it speaks (model card)."""


def qwen3_omni(fields: Fields, id: str, revision: str) -> ModelGraph:  # noqa: A002
    thinker = fields.part("thinker_config")
    model = decoder_model(thinker.part("text_config"), id, revision)
    width = model.hidden_size
    vocoder_fields = fields.part("code2wav_config")
    codebooks = vocoder_fields.integer("num_quantizers", low=1, high=1024)
    tokens_per_s = SAMPLES_PER_S / _samples_per_token(vocoder_fields)
    vision_fields = thinker.part("vision_config")
    components = (
        _vision(fields, vision_fields, width),
        _hearing(thinker.part("audio_config"), width),
        text_decoder(THINKER, model, gives=width),
        _talker(fields.part("talker_config"), id, revision, width, codebooks, tokens_per_s),
        _vocoder(vocoder_fields, codebooks, tokens_per_s),
    )
    # Rows of deeper layers (`deepstack`) go along with those that stand in the prompt.
    rows = 1.0 + len(vision_fields.integers("deepstack_visual_indexes", 64))
    return ModelGraph(id, revision, components, omni_edges(width, codebooks, rows))


def _vision(root: Fields, fields: Fields, width_taken: int) -> Component:
    width, inner = fields.integer("hidden_size", low=1, high=WIDEST), fields.integer("intermediate_size", 1, 1, WIDEST)
    heads, head_dim = heads_of(fields, "num_heads", width)
    merge, given = merge_of(fields), same_width(fields, "out_hidden_size", width_taken, "the thinker")
    mergers, merged = 1 + len(fields.integers("deepstack_visual_indexes", 64)), merge * width
    vectors = 4 * width + inner + width + 4 * width
    stack = Stack(fields.integer("depth", low=1, high=MOST_LAYERS), layer(width, inner), heads, head_dim, 0, vectors)
    outside = (
        Product(width, patch_depth(fields)),
        Product(merged, merged, rows=1 / merge, count=mergers),
        Product(given, merged, rows=1 / merge, count=mergers),
    )
    positions = fields.integer("num_position_embeddings", 0) * width
    other = positions + width + mergers * (3 * merged + given)
    network = Network(merge, (stack,), outside, other)
    return image_encoder(VISION, network, given, patch_grid(root, fields))


def _hearing(fields: Fields, width_taken: int) -> Component:
    """Three convolutions that halve mel bins and frames, then Whisper's layers over windows of `n_window_infer`
    frames."""
    width, channels = fields.integer("d_model", low=1, high=WIDEST), fields.integer("downsample_hidden_size", low=1)
    bins, given = (
        fields.integer("num_mel_bins", low=8, high=4096),
        same_width(fields, "output_dim", width_taken, "the thinker"),
    )
    stack = whisper_layers(fields, key_bias=True, window_rows=-(-fields.integer("n_window_infer", low=8) // 8))
    front = (
        Product(channels, 9, rows=bins / 2 * 4),
        Product(channels, 9 * channels, rows=bins / 4 * 2),
        Product(channels, 9 * channels, rows=bins / 8),
        Product(width, channels * bins / 8),
    )
    behind = (Product(width, width), Product(given, width))
    network = Network(1.0, (stack,), (*front, *behind), 3 * channels + 3 * width + given)
    return audio_encoder(HEARING, network, given, MEL_FRAMES_PER_S / 8)


def _talker(
    fields: Fields,
    id: str,  # noqa: A002
    revision: str,
    width: int,
    codebooks: int,
    tokens_per_s: float,
) -> Component:
    """It writes the first codebook of each token; a predictor of a few layers writes the others one by one."""
    model = decoder_model(fields.part("text_config"), f"{id}/{TALKER}", revision)
    given = same_width(fields, "thinker_hidden_size", width, "the thinker's hidden state")
    same_width(fields, "num_code_groups", codebooks, "the vocoder (num_quantizers)")
    projection = given * given + given + given * model.hidden_size + model.hidden_size
    spec = DecoderSpec(
        model,
        beside=_predictor(fields.part("code_predictor_config"), codebooks),
        beside_passes=codebooks - 1,
        other_weight_bytes=2 * projection * ELEMENT_BYTES,
    )
    return Component(TALKER, Unit.CODEC_TOKEN, spec, given, codebooks, units_per_second=tokens_per_s)


def _predictor(fields: Fields, codebooks: int) -> Network:
    width, inner = fields.integer("hidden_size", low=1, high=WIDEST), fields.integer("intermediate_size", 1, 1, WIDEST)
    heads, head_dim = fields.integer("num_attention_heads", low=1, high=4096), fields.integer("head_dim", low=1)
    keys, vocabulary = fields.integer("num_key_value_heads", low=1) * head_dim, fields.integer("vocab_size", low=1)
    products = layer(width, inner, kv_width=keys, head_width=heads * head_dim, gated=True)
    layers = fields.integer("num_hidden_layers", low=1, high=MOST_LAYERS)
    stack = Stack(layers, products, heads, head_dim, codebooks, 2 * width + 2 * head_dim)
    # Each codebook has an embedding and a head of its own; a pass uses one of each.
    others = (2 * (codebooks - 1) - 1) * vocabulary * width
    return Network(1.0, (stack,), (Product(vocabulary, width),), others + width)


def _samples_per_token(fields: Fields) -> int:
    samples = 1
    for rate in (*whole_numbers(fields, "upsampling_ratios"), *whole_numbers(fields, "upsample_rates")):
        samples *= rate
    return samples


def _vocoder(fields: Fields, codebooks: int, tokens_per_s: float) -> Component:
    """Layers over codec tokens, then convolutions that multiply the rows and halve the channels."""
    width, inner = fields.integer("hidden_size", low=1, high=WIDEST), fields.integer("intermediate_size", 1, 1, WIDEST)
    heads, head_dim = heads_of(fields, "num_attention_heads", width)
    layers, window = fields.integer("num_hidden_layers", low=1, high=MOST_LAYERS), fields.integer("sliding_window", 0)
    stack = Stack(layers, layer(width, inner, gated=True), heads, head_dim, window, 4 * width)
    products: list[Product] = []
    rows, other = 1, fields.integer("codebook_size", low=1) * codebooks * width + width
    for ratio in whole_numbers(fields, "upsampling_ratios"):
        products.append(Product(width * ratio, width, rows=rows))
        rows *= ratio
        products += [Product(4 * width, width, rows=rows), Product(width, 4 * width, rows=rows)]
        other += 15 * width  # a convolution of seven taps within each channel, biases, norm and scale
    channels = fields.integer("decoder_dim", low=2, high=WIDEST)
    products.append(Product(channels, 7 * width, rows=rows))
    for rate in whole_numbers(fields, "upsample_rates"):
        products.append(Product(channels // 2 * 2 * rate, channels, rows=rows))
        channels, rows = channels // 2, rows * rate
        # Three residual units: a convolution of seven taps and one of one.
        products += [
            Product(channels, 7 * channels, rows=rows, count=3),
            Product(channels, channels, rows=rows, count=3),
        ]
    products.append(Product(1, 7 * channels, rows=rows))
    spec = GeneratorSpec(Network(tokens_per_s, (stack,), tuple(products), other))
    return Component(VOCODER, Unit.AUDIO_SECOND, spec, codebooks, answers=Modality.AUDIO)
