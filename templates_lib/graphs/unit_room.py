"""Memory that pictures and sounds of a model take on their way: as values that an encoder reads, and as its rows."""

from templates_lib.graphs.component import Component, EncoderSpec, Modality
from templates_lib.graphs.model_graph import ModelGraph
from templates_lib.media.image_layout import ImageRule
from templates_lib.media.patch_grid import PatchGrid

_MIB = 1 << 20
_ELEMENT_BYTES = 4
"""Values and rows are sent in fp32."""
_CHANNELS, _FRAMES = 3, 2
"""Of a picture; a patch of one that stands still has it as often as a patch of a film has frames."""
_SHAPES = ((1, 1), (1, 8), (8, 1))
_LONG = 1 << 14
"""Pixels of a side of pictures that every family scales down."""
_SAMPLES_PER_S = 16_000
"""Of sound, as encoders take it."""
_LONGEST_S = 300.0
"""Of a clip that is not cut into windows."""
_AT_ONCE = 16
_LEAST_MIB, _USUAL_MIB = 64, 256


def unit_bytes(graph: ModelGraph) -> tuple[int, int]:
    """Return the bytes of the values, and of the rows, of the largest picture or sound that the model reads; zeros for
    one that reads neither."""
    sizes = [_size(component) for component in graph.components if isinstance(component.spec, EncoderSpec)]
    return max((values for values, _ in sizes), default=0), max((rows for _, rows in sizes), default=0)


def slab_mib(graph: ModelGraph) -> int:
    """Return the MiB of shared memory that a node's sidecar needs for executors of a model: two of its largest units
    with their rows, as a producer may have half of it, and up to `_AT_ONCE` of small ones."""
    values, rows = unit_bytes(graph)
    unit = values + rows
    return max(_LEAST_MIB, min(_USUAL_MIB, _AT_ONCE * unit // _MIB), -(-2 * unit // _MIB))


def _size(component: Component) -> tuple[int, int]:
    spec = component.spec
    assert isinstance(spec, EncoderSpec)  # noqa: S101 - its caller has looked
    row_bytes = _ELEMENT_BYTES * component.gives
    if spec.images is not None:
        sizes = [_picture(spec.images, _LONG // high, _LONG // wide) for high, wide in _SHAPES]
        return max(values for values, _ in sizes), row_bytes * max(rows for _, rows in sizes)
    if component.reads is not Modality.AUDIO:
        return 0, 0
    units = component.padded_units or component.clip_units(_LONGEST_S)
    samples = units / component.units_per_second * _SAMPLES_PER_S
    return round(samples) * _ELEMENT_BYTES, round(units) * row_bytes


def _picture(rule: ImageRule, width: int, height: int) -> tuple[int, int]:
    """Bytes of the values of a picture, and its rows."""
    layout = rule.layout(width, height)
    pixels = layout.width * layout.height
    tiles = pixels // (layout.rows * layout.columns) * layout.tiles
    seen = pixels * _FRAMES if isinstance(rule, PatchGrid) else tiles
    return seen * _CHANNELS * _ELEMENT_BYTES, layout.image_tokens
