"""Whisper: an encoder of 30 seconds of audio, and a decoder whose layers attend to it."""

from dataclasses import replace

from templates_lib.graphs.component import Component, DecoderSpec, Modality
from templates_lib.graphs.families.parts import (
    MEL_FRAMES_PER_S,
    MOST_LAYERS,
    WIDEST,
    audio_encoder,
    heads_of,
    whisper_front,
    whisper_layers,
)
from templates_lib.graphs.model_graph import GraphEdge, ModelGraph
from templates_lib.graphs.network import Network
from templates_lib.models.config_fields import Fields
from templates_lib.models.model_spec import ModelSpec
from templates_lib.values.work import Unit

HEARING, WRITING = "hearing", "writing"


def whisper(fields: Fields, id: str, revision: str) -> ModelGraph:  # noqa: A002
    width, rows = (
        fields.integer("d_model", low=1, high=WIDEST),
        fields.integer("max_source_positions", 1500, 1, 1 << 20),
    )
    positions = rows * width + 2 * width  # and the last norm; and both convolutions' biases
    network = Network(1.0, (whisper_layers(fields),), whisper_front(fields), positions + 2 * width)
    encoder = replace(audio_encoder(HEARING, network, width, MEL_FRAMES_PER_S / 2), padded_units=rows)
    spec = DecoderSpec(_decoder(fields, id, revision), cross_share=1.0)
    decoder = Component(WRITING, Unit.OUTPUT_TOKEN, spec, width, answers=Modality.TEXT)
    return ModelGraph(id, revision, (encoder, decoder), (GraphEdge(HEARING, WRITING, width),))


def _decoder(fields: Fields, id: str, revision: str) -> ModelSpec:  # noqa: A002
    """Attention to the encoder counts as attention: its projections are as large again as those of attention to the
    text, and its keys and values are of one token a row."""
    width, inner = fields.integer("d_model", low=1, high=WIDEST), fields.integer("decoder_ffn_dim", low=1, high=WIDEST)
    heads, head_dim = heads_of(fields, "decoder_attention_heads", width)
    layers, vocabulary = fields.integer("decoder_layers", low=1, high=MOST_LAYERS), fields.integer("vocab_size", low=1)
    attention = 2 * (4 * width * width + 3 * width) + 6 * width  # two attentions, three norms
    context = fields.integer("max_target_positions", 448, low=1, high=1 << 20)
    return ModelSpec(
        id=id,
        revision=revision,
        layers=layers,
        hidden_size=width,
        attention_heads=heads,
        kv_heads=heads,
        head_dim=head_dim,
        intermediate_size=inner,
        vocab_size=vocabulary,
        tied_embeddings=True,
        dtype="bf16",
        activation_dtype="bf16",
        kv_dtype="bf16",
        attention_weight_bytes=2.0 * attention,
        ffn_weight_bytes=2.0 * (2 * width * inner + inner + width),
        embedding_weight_bytes=2.0 * vocabulary * width,
        windows=(0,) * layers,
        gated_ffn=False,
        max_context_tokens=context,
    )
