"""Qwen2.5-Omni: vision and audio encoders, a thinker, a talker, and a vocoder that makes audio of codec tokens."""

from templates_lib.graphs.component import Component, DecoderSpec, GeneratorSpec, Modality
from templates_lib.graphs.families.parts import (
    MEL_FRAMES_PER_S,
    MOST_LAYERS,
    WIDEST,
    audio_encoder,
    decoder_model,
    layer,
    same_width,
    text_decoder,
    whisper_front,
    whisper_layers,
    whole_numbers,
)
from templates_lib.graphs.families.qwen_vl import VISION, qwen2_5_vision
from templates_lib.graphs.model_graph import GraphEdge, ModelGraph
from templates_lib.graphs.network import Network, Product, Rows, Stack
from templates_lib.models.config_fields import Fields, UnsupportedModelError
from templates_lib.values.work import Unit

HEARING, THINKER, TALKER, VOCODER = "hearing", "thinker", "talker", "vocoder"
ID_BYTES = 4.0
"""Bytes of one codec token's number on its way."""
PASSES = 2 * 4 * 9
"""Passes of the vocoder's denoiser: guided (two in one), four evaluations a Runge-Kutta step, nine steps (`sample` in
transformers' modelling code, `num_steps` of 10)."""
TIME_WIDTH = 256
"""Of the sine embedding of a denoiser's time (its modelling code)."""
ANSWER_ROWS = 2.0
"""The talker takes a hidden row and an embedding of each token."""


def qwen2_5_omni(fields: Fields, id: str, revision: str) -> ModelGraph:  # noqa: A002
    thinker = fields.part("thinker_config")
    model = decoder_model(thinker.part("text_config"), id, revision)
    width = model.hidden_size
    talker, vocoder = _talker(fields.part("talker_config"), id, revision, width), _vocoder(fields)
    components = (
        qwen2_5_vision(fields, thinker.part("vision_config"), width),
        _hearing(thinker.part("audio_config"), width),
        text_decoder(THINKER, model, gives=width),
        talker,
        vocoder,
    )
    return ModelGraph(id, revision, components, omni_edges(width, 1, 1.0))


def omni_edges(width: int, codebooks: int, vision_rows: float) -> tuple[GraphEdge, ...]:
    return (
        GraphEdge(VISION, THINKER, width, vision_rows, required=False),
        GraphEdge(HEARING, THINKER, width, required=False),
        GraphEdge(THINKER, TALKER, width, ANSWER_ROWS, stream=True, with_context=True),
        GraphEdge(TALKER, VOCODER, codebooks, element_bytes=ID_BYTES, stream=True),
    )


def _hearing(fields: Fields, width_taken: int) -> Component:
    """Whisper's encoder over windows of `n_window` rows, whose neighbours are then averaged in twos."""
    width = fields.integer("d_model", low=1, high=WIDEST)
    given = same_width(fields, "output_dim", width_taken, "the thinker")
    stack = whisper_layers(fields, window_rows=fields.integer("n_window", low=1, high=1 << 16))
    outside = (*whisper_front(fields), Product(given, width, rows=0.5))
    network = Network(2.0, (stack,), outside, 4 * width + 3 * given)
    return audio_encoder(HEARING, network, given, MEL_FRAMES_PER_S / 4)


def _talker(fields: Fields, id: str, revision: str, width: int) -> Component:  # noqa: A002
    model = decoder_model(fields, f"{id}/{TALKER}", revision)
    given = same_width(fields, "embedding_size", width, "the thinker's hidden state")
    # Embeddings are as wide as the thinker's and projected; the head is as wide as the talker.
    wider = 2.0 * (model.vocab_size * (given - model.hidden_size) + given * model.hidden_size + model.hidden_size)
    spec = DecoderSpec(model, other_weight_bytes=wider)
    # A codec token is two mel frames (`dit_config.repeats`).
    return Component(TALKER, Unit.CODEC_TOKEN, spec, given, 1, units_per_second=MEL_FRAMES_PER_S / 2)


def _vocoder(root: Fields) -> Component:
    fields = root.part("token2wav_config")
    spec = GeneratorSpec(_bigvgan(fields.part("bigvgan_config")), _denoiser(fields.part("dit_config")), PASSES)
    return Component(VOCODER, Unit.AUDIO_SECOND, spec, 1, answers=Modality.AUDIO)


def _denoiser(fields: Fields) -> Network:
    """A diffusion transformer over mel frames; each row attends to its block of `block_size`, in three layers to one
    more. The encoder of the speaker's voice, which runs once a voice, is left out (0.4 % of the weights)."""
    width = fields.integer(fields.name_of("dim", "hidden_size") or "dim", low=1, high=WIDEST)
    heads = fields.integer(fields.name_of("heads", "num_attention_heads") or "heads", low=1, high=4096)
    head_dim, inner = fields.integer("head_dim", low=1, high=4096), fields.integer("ff_mult", 2, 1, 64) * width
    layers = fields.integer(fields.name_of("depth", "num_hidden_layers") or "depth", low=1, high=MOST_LAYERS)
    # Modulated by the time of the pass: one row of six widths for each item and layer.
    products = (*layer(width, inner, head_width=heads * head_dim), Product(6 * width, width, of=Rows.ITEM))
    vectors = 3 * heads * head_dim + width + inner + width + 6 * width
    block = fields.integer("block_size", low=1, high=1 << 16)
    mel, code = fields.integer("mel_dim", low=1, high=4096), fields.integer("emb_dim", low=1, high=WIDEST)
    speaker, style = fields.integer("enc_emb_dim", low=1, high=WIDEST), fields.integer("enc_dim", low=1, high=WIDEST)
    outside = (Product(width, mel + style + speaker + code), Product(mel, width))
    other = fields.integer("num_embeds", low=1) * code + (TIME_WIDTH + width) * width + 2 * width * width
    return Network(MEL_FRAMES_PER_S, (Stack(layers, products, heads, head_dim, block, vectors),), outside, other)


def _bigvgan(fields: Fields) -> Network:
    """Convolutions that widen mel frames to samples: each stage halves the channels and multiplies the rows."""
    rates, kernels = whole_numbers(fields, "upsample_rates"), whole_numbers(fields, "upsample_kernel_sizes")
    blocks, channels = whole_numbers(fields, "resblock_kernel_sizes"), fields.integer("upsample_initial_channel", low=2)
    mel = fields.integer("mel_dim", low=1, high=4096)
    if len(kernels) != len(rates):
        key = f"{fields.prefix}upsample_kernel_sizes"
        raise UnsupportedModelError(key, f"has {len(kernels)} entries for {len(rates)} of upsample_rates")
    products = [Product(channels, 7 * mel)]
    rows = 1
    for rate, kernel in zip(rates, kernels, strict=True):
        # A transposed convolution multiplies each row that it reads with all taps, and adds them up where they overlap.
        products.append(Product(channels // 2 * kernel, channels, rows=rows))
        channels, rows = channels // 2, rows * rate
        # Three dilations of two convolutions each, for each size of kernel.
        products += [Product(channels, channels * size, rows=rows, count=6) for size in blocks]
    products.append(Product(1, channels * 7, rows=rows))
    return Network(MEL_FRAMES_PER_S, (), tuple(products))
