"""Steps to measure: few, chosen so that every term of the fit is seen large and small."""

from dataclasses import dataclass

from agents.engines.layer_range import LayerRange


@dataclass(frozen=True, slots=True)
class Point:
    """A step of `prompts` prompt chunks of `prompt_tokens` tokens each behind `prompt_before` cached ones, and of
    `requests` requests that decode with `context` cached tokens."""

    prompts: int = 0
    prompt_tokens: int = 0
    prompt_before: int = 0
    requests: int = 0
    context: int = 0
    held_out: bool = False

    @property
    def cached_tokens(self) -> int:
        """Tokens in the KV cache behind the step, whole requests."""
        return self.prompts * (self.prompt_before + self.prompt_tokens) + self.requests * (self.context + 1)

    @property
    def longest(self) -> int:
        """Tokens of the longest request behind the step."""
        return max(self.prompt_before + self.prompt_tokens if self.prompts else 0, self.context + 1)


@dataclass(frozen=True, slots=True)
class StepSweep:
    """One engine and the steps to measure on it."""

    held: LayerRange
    points: tuple[Point, ...]


def _decode(requests: int, context: int, held_out: bool = False) -> Point:
    return Point(requests=requests, context=context, held_out=held_out)


def _prompt(tokens: int, before: int = 0, prompts: int = 1, held_out: bool = False) -> Point:
    return Point(prompts, tokens, before, held_out=held_out)


_MANY_LAYERS = (
    _decode(1, 31), _decode(1, 767), _decode(2, 127), _decode(4, 127), _decode(8, 31), _decode(8, 511),
    _decode(16, 127), _decode(32, 95), _decode(48, 159), _decode(6, 255, held_out=True), _decode(12, 63, held_out=True),
    _decode(24, 143, held_out=True),
    _prompt(16), _prompt(48), _prompt(128), _prompt(256), _prompt(64, before=704), _prompt(64, prompts=3),
    _prompt(112, prompts=5), _prompt(128, prompts=8),
    _prompt(96, held_out=True), _prompt(192, before=128, held_out=True), _prompt(120, prompts=6, held_out=True),
    Point(1, 64, 0, 8, 127), Point(1, 112, 0, 4, 255, held_out=True),
)  # fmt: skip
_FEW_LAYERS = (
    _decode(1, 127), _decode(8, 127), _decode(32, 95), _prompt(64), _prompt(192), _prompt(112, prompts=14),
)  # fmt: skip
_FIRST = (_decode(8, 127, held_out=True), _prompt(128, held_out=True))
_LAST = (
    _decode(1, 31), _decode(2, 31), _decode(4, 31), _decode(8, 31), _decode(16, 31), _decode(32, 31), _decode(48, 31),
    _prompt(64), _decode(6, 31, held_out=True), _decode(24, 31, held_out=True),
)  # fmt: skip
_MANY_LAYERS_GPU = (
    _decode(1, 127), _decode(1, 4095), _decode(2, 511), _decode(4, 1023), _decode(8, 255), _decode(8, 2047),
    _decode(16, 1023), _decode(32, 511), _decode(64, 1023), _decode(128, 511), _decode(256, 255),
    _decode(6, 767, held_out=True), _decode(24, 1535, held_out=True), _decode(96, 639, held_out=True),
    _prompt(64), _prompt(256), _prompt(512), _prompt(1024), _prompt(2048), _prompt(256, before=3840),
    _prompt(128, prompts=3), _prompt(512, prompts=4), _prompt(1024, prompts=8),
    _prompt(384, held_out=True), _prompt(768, before=1024, held_out=True), _prompt(300, prompts=6, held_out=True),
    Point(1, 512, 0, 32, 1023), Point(1, 256, 0, 16, 511, held_out=True),
)  # fmt: skip
_FEW_LAYERS_GPU = (
    _decode(1, 127), _decode(32, 511), _decode(128, 511), _prompt(256), _prompt(2048), _prompt(1024, prompts=8),
)  # fmt: skip
_FIRST_GPU = (_decode(32, 511, held_out=True), _prompt(1024, held_out=True))
_LAST_GPU = (
    _decode(1, 127), _decode(2, 127), _decode(4, 127), _decode(8, 127), _decode(16, 127), _decode(32, 127),
    _decode(64, 127), _decode(128, 127), _decode(256, 127), _prompt(512), _decode(6, 127, held_out=True),
    _decode(96, 127, held_out=True),
)  # fmt: skip
_POINTS = {
    "cpu": (_FEW_LAYERS, _LAST, _FIRST, _MANY_LAYERS),
    "cuda": (_FEW_LAYERS_GPU, _LAST_GPU, _FIRST_GPU, _MANY_LAYERS_GPU),
}
"""Kind of device → steps of few layers, of the last, of the first, of many."""
LEAST_LAYERS = 4
"""A middle range of two lengths needs as many."""
CACHE_BYTES = 64 << 20
"""Weights that no cache of a processor keeps from one step to the next, on most machines: those that it keeps are read
several times as fast, which a stage of more layers would not see."""


def sweeps(layers: int, max_context_tokens: int, layer_bytes: int, kind: str = "cpu") -> tuple[StepSweep, ...]:
    """Make the sweeps for a model of `layers` layers of `layer_bytes` each; points longer than its context (0:
    unlimited) are left out.

    Ranges are short, so that a node that could never hold the whole model is measured too, and no shorter than caches
    are large, where the model is; the longest comes last. `kind` of device: `cuda` has larger steps, as it serves
    them. Raises ValueError for models of fewer than LEAST_LAYERS layers.
    """
    if layers < LEAST_LAYERS:
        raise ValueError(f"a model of {layers} layers cannot be profiled: at least {LEAST_LAYERS} are needed")
    few = max(1, layers // 15, min(-(-CACHE_BYTES // layer_bytes), layers // 4))
    many = max(2 * few, layers // 5)
    of_few, of_last, of_first, of_many = _POINTS[kind]
    limit = max_context_tokens or max(point.longest for point in of_many)
    ranges = (
        (LayerRange(1, few, first=False, last=False), of_few),
        (LayerRange(layers - 1, 1, first=False, last=True), of_last),
        (LayerRange(0, 1, first=True, last=False), of_first),
        (LayerRange(1, many, first=False, last=False), of_many),
    )
    return tuple(StepSweep(held, tuple(p for p in points if p.longest <= limit)) for held, points in ranges)
