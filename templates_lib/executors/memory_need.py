"""Memory that executors of encoders and generators take of a device (engine `components` of
`templates_lib.values.engines`): one reckoning, to which they keep when they start and with which they are planned."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from templates_lib.graphs.component import Component, ComponentWork, DecoderSpec, EncoderSpec, GeneratorSpec
from templates_lib.graphs.families.parts import whole_numbers
from templates_lib.graphs.network import Network
from templates_lib.media.aspect_tiles import AspectTiles
from templates_lib.models.config_fields import Fields

SPOKEN_TOKENS = 250
"""Phonemes of one run of Kokoro, about 18 s. Its text encoder has positions for 510, which take twice the memory;
sentences are cut alike wherever an answer goes on, so that this does not depend on the memory of a node."""
SPOKEN_TOKEN_BYTES = 3 << 19
"""Memory of a run for each of them: as measured, a process that has spoken 510 tokens (30 s) with the int8 network of
`bench.speech` has grown by 724 MiB over what it had with the weights, 1.42 MiB a token; rounded up."""
_COUNTED_WITHIN = 0.01
"""Weights that are counted by a config are those of the real network within 0.7 %
(`tests/templates_lib/test_graph_configs.py`): so much more is kept for them."""
_OF_PICTURE = 2.0
"""Rows of a batch for each row of a picture: it is made with its text and without
(`agents.engines.torch_components.word_pictures`)."""


@dataclass(frozen=True, slots=True)
class ExecutorNeed:
    """Of one component, in an executor of its own."""

    values: float
    """Numbers that it has of weights, each in the type that is computed in."""
    row_values: float
    """Numbers of that type that a row takes while it is computed."""
    batch_rows: float = 1.0
    """Rows of a batch for each row that a request asks for."""
    stored_bytes: float = 0.0
    """Bytes on top, whatever is asked for and computed in: weights that are held as their file has them, and runs of
    one size."""

    def held_bytes(self, rows: float, element_bytes: float) -> float:
        """Return what it takes to compute `rows` of a request at once, in a type of so many bytes."""
        return self.stored_bytes + element_bytes * (self.values + self.row_values * math.ceil(self.batch_rows * rows))


def layer_values(hidden_size: float, ffn_width: float) -> float:
    """Count the numbers that a row takes in a transformer layer without a KV cache: itself, its sum, its norm, queries,
    keys, values, what they mix to; and the feed-forward block's width (gate and up together), twice."""
    return 7 * hidden_size + 2 * ffn_width


def decoded_values(widths: Sequence[int], blocks: int) -> int:
    """Count the numbers that the decoder of Qwen-Image's autoencoder holds at once for each pixel of a picture, at
    most, without what attention keeps for itself. `widths`: channels of its stages, the one of latents first;
    `blocks`: `num_res_blocks` of its config."""
    entering, values = widths[0], [8 * widths[0]]
    for number, width in enumerate(widths):
        for _ in range(blocks + 1):
            # A block that changes the width holds what came, that by its shortcut, and what enters, is read and leaves
            # its second convolution, and a length for its norm; another holds one less.
            values.append((4 if entering == width else 5) * max(entering, width) + 1 << 2 * number)
            entering = width
        if number + 1 < len(widths):
            entering = width // 2
            # A quarter as many as it was, then twice as high and wide, and half of the channels of that.
            values.append((width // 4 + 1 + width + entering) << 2 * (number + 1))
    return -(-max(values) >> 2 * (len(widths) - 1))


def executor_need(config: Mapping[str, Any], component: Component, file_bytes: float = 0.0) -> ExecutorNeed | None:
    """Return what the executor of an encoder or a generator takes; None: it is neither, or of no architecture that
    Medley's executors compute. `config`: of its model. `file_bytes`: of its weights where these are held as they are
    stored (`KEPT_AS_STORED`); 0: not known, so that they are counted at full width."""
    if isinstance(component.spec, EncoderSpec):
        network = component.spec.network
        return ExecutorNeed(_counted(network.weights), _widest_layer(network))
    reckoned = _GENERATORS.get((str(config.get("model_type")), component.name))
    if reckoned is None or isinstance(component.spec, DecoderSpec):
        return None
    return reckoned(Fields(dict(config)), component.spec, file_bytes)


def rows_of(component: Component, work: ComponentWork) -> float:
    """Count the rows that a request is computed with at once, of which one picture, clip or answer at least is whole
    though requests bring less than one in the mean. Raises ValueError for a decoder."""
    spec = component.spec
    if isinstance(spec, DecoderSpec):
        raise ValueError(f"{component.name} is a decoder: its tokens are in a KV cache")
    items = max(work.items, 1e-9)
    if isinstance(spec, GeneratorSpec):
        rows = work.item_rows * items if work.item_rows else work.units * spec.decoder.rows_per_unit
        return rows / min(items, 1.0)
    # Executors that have no room for a tile, a window or a second of sound do not start.
    tile = spec.images.tokens_per_tile if isinstance(spec.images, AspectTiles) else 0
    least = max(tile, component.padded_units, component.units_per_second)
    return max(work.units / min(items, 1.0), least) * spec.network.rows_per_unit


def _counted(weights: float) -> float:
    return (1 + _COUNTED_WITHIN) * weights


def _widest_layer(network: Network) -> float:
    """Of the products of a layer (`templates_lib.graphs.families.parts.layer`), the second gives rows of its width, the
    third those of its feed-forward block."""
    return max(layer_values(stack.products[1].columns, stack.products[2].columns) for stack in network.stacks)


def _pictures(fields: Fields, spec: GeneratorSpec, _file_bytes: float) -> ExecutorNeed:
    """One picture at a time is decoded, of half as many rows as a batch may have at most."""
    assert spec.denoiser is not None  # noqa: S101 - its reader gives it one
    vae = fields.part("vae")
    widths = [vae.integer("base_dim", low=2) * times for times in reversed(whole_numbers(vae, "dim_mult"))]
    of_pixel = decoded_values(widths, vae.integer("num_res_blocks", low=1))
    row = max(_widest_layer(spec.denoiser), spec.pixels_per_row * of_pixel // 2)
    return ExecutorNeed(_counted(spec.decoder.weights + spec.denoiser.weights), row, _OF_PICTURE)


def _speech(_fields: Fields, spec: GeneratorSpec, file_bytes: float) -> ExecutorNeed:
    """A sentence of the longest size at a time, in onnxruntime."""
    run = float(SPOKEN_TOKENS * SPOKEN_TOKEN_BYTES)
    return ExecutorNeed(0.0 if file_bytes else _counted(spec.decoder.weights), 0.0, stored_bytes=run + file_bytes)


KEPT_AS_STORED = frozenset({("kokoro", "voice"), ("style_text_to_speech_2", "voice")})
"""(`model_type` of config.json, component) of generators whose weights onnxruntime holds as they are stored."""
_GENERATORS: dict[tuple[str, str], Callable[[Fields, GeneratorSpec, float], ExecutorNeed]] = {
    **dict.fromkeys(KEPT_AS_STORED, _speech),
    ("word_pictures", "picture"): _pictures,
}
"""The same of all that `agents.executor.generators` loads → what reckons it."""
