"""The two models of the paper on its A100s: what their stages take, and what their requests are."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property

import numpy as np

from control.simulator.pools.encoder import Encoder
from control.simulator.pools.pool_requests import PoolRequest
from control.simulator.pools.row_link import RowLink
from control.simulator.pools.stage_times import EncodeTimes, TextTimes, encode_times, text_times
from control.simulator.pools.text_instance import TextInstance
from policies.pools.turns import TURNS
from templates_lib.cost.component import EstimatedComponentCost
from templates_lib.cost.estimated import USABLE_SHARE, estimated_cost_model
from templates_lib.graphs.catalogue import load_graph
from templates_lib.graphs.families.qwen_vl import LANGUAGE, VISION
from templates_lib.graphs.media_tokens import image_layout, image_rule
from templates_lib.graphs.model_graph import ModelGraph
from templates_lib.load.shapes import load_window
from templates_lib.media.parts import parts_of
from templates_lib.values.hardware import load_gpus
from templates_lib.values.node_config import NodeConfig, config_id

MODELS = {"Llama 3.2 11B": "llama-3.2-11b-vision", "InternVL 26B": "internvl2.5-26b"}
GPU, NVLINK_GBPS, NODE_GBPS, NODE_GPUS = "A100-80", 2400.0, 1600.0, 8
"""DGX A100: NVLink 3, and eight InfiniBand cards of 200 Gbit/s."""
WINDOWS = ("azure-lmm-2024-10-16", "azure-lmm-2024-10-21")
MEDIAN_PX, SIGMA_PX = 500.0, 0.43
"""Width and height of pictures: log-normal through the median and the 95th percentile (1,000 px) that the paper has of
its trace and of ShareGPT-4o (3.2)."""
MOST_IMAGES = 16
MOST_TEXT = 2048
"""Tokens of text that are taken of a prompt at most: longer prompts are a class of their own (`slo.max_prompt_tokens`),
and the paper takes the short texts of another data set."""
TEXT_GPUS = 4
ENCODE_TOKENS = 8192
"""Image tokens that a monolith encodes in one step (of several pictures; a larger one is alone)."""
MOST_PARTS, NEARLY = 16, 0.95
"""Of batches of encoders: the largest, and the share of the best throughput that is as good."""
PULL_S = 0.0005
"""Of a pull beside its bytes, over InfiniBand."""
_ARRIVALS, _PICTURES = 1, 2


@dataclass(frozen=True, eq=False)
class Stages:
    """A model, with times that are reckoned once: `stages_of` has one for each."""

    name: str
    _encode: dict[int, EncodeTimes] = field(default_factory=dict)
    _text: dict[tuple[int, bool], TextTimes] = field(default_factory=dict)
    _parts: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)

    @cached_property
    def graph(self) -> ModelGraph:
        return load_graph(MODELS[self.name])

    @cached_property
    def costs(self) -> EstimatedComponentCost:
        return EstimatedComponentCost(estimated_cost_model(load_gpus(), "vllm"))

    def encode(self, gpus: int) -> EncodeTimes:
        if gpus not in self._encode:
            self._encode[gpus] = encode_times(self.graph, VISION, part_of_node(gpus), self.costs)
        return self._encode[gpus]

    def text(self, gpus: int, *, with_encoder: bool) -> TextTimes:
        if (gpus, with_encoder) not in self._text:
            reserved = self.graph.component(VISION).weight_bytes / gpus if with_encoder else 0.0
            made = text_times(self.graph, LANGUAGE, part_of_node(gpus), self.costs, reserved)
            self._text[gpus, with_encoder] = made
        return self._text[gpus, with_encoder]

    def link(self, bytes_per_s: float = 0.0, latency_s: float = PULL_S) -> RowLink:
        """`bytes_per_s`: of each member; 0: its card's."""
        (edge,) = self.graph.sources(LANGUAGE)
        return RowLink(edge.bytes_per_unit, bytes_per_s or USABLE_SHARE * NODE_GBPS / NODE_GPUS * 1e9 / 8, latency_s)

    def parts(self, width: float, height: float) -> tuple[int, ...]:
        """Image tokens of each part of a picture that is encoded alone."""
        size = max(round(width), 1), max(round(height), 1)
        if size not in self._parts:
            self._parts[size] = parts_of(image_rule(self.graph), image_layout(self.graph, *size))
        return self._parts[size]

    def drawn_picture(self, draw: np.random.Generator) -> tuple[int, ...]:
        """Parts of a picture of a random size."""
        width, height = MEDIAN_PX * np.exp(SIGMA_PX * draw.standard_normal(2))
        return self.parts(width, height)

    def batch(self, gpus: int) -> int:
        """Parts of a batch: of all up to `MOST_PARTS` the least that encodes nearly as many tokens/s as the best of
        them (insight 4)."""
        (part, *_), times = self.parts(MEDIAN_PX, MEDIAN_PX), self.encode(gpus)
        rates = [count * part / times.seconds(count * part, count) for count in range(1, MOST_PARTS + 1)]
        return next(count for count, rate in enumerate(rates, 1) if rate >= NEARLY * max(rates))

    def encoder(self, name: str, gpus: int) -> Encoder:
        """An encoder whose batches are as large as they bring something."""
        (part, *_) = self.parts(MEDIAN_PX, MEDIAN_PX)
        return Encoder(name, self.encode(gpus), self.batch(gpus) * part)

    def text_instance(self, name: str, gpus: int, turn: str) -> TextInstance:
        return TextInstance(name, self.text(gpus, with_encoder=False), TURNS[turn])

    def monolith(self, name: str, gpus: int) -> TextInstance:
        times = self.text(gpus, with_encoder=True)
        return TextInstance(name, times, TURNS["fcfs"], self.encode(gpus), ENCODE_TOKENS)

    def alone_s(self, text_tokens: int, pictures: Sequence[Sequence[int]], gpus: int = TEXT_GPUS) -> float:
        """Time to the first token of a request that is alone on a monolith, its parts one by one."""
        parts = [part for picture in pictures for part in picture]
        encode_s = sum(self.encode(gpus).seconds(part, 1) for part in parts)
        return encode_s + self.text(gpus, with_encoder=True).prompt_s(text_tokens, sum(parts))

    def isolated(self, text_tokens: int) -> tuple[float, float, float]:
        """(TTFT of text alone, of text and a median picture, time between tokens) of a request that is alone on a
        monolith on four GPUs (5.1)."""
        pictured_s = self.alone_s(text_tokens, [self.parts(MEDIAN_PX, MEDIAN_PX)])
        tbt_s = self.text(TEXT_GPUS, with_encoder=True).seconds(0, 0.0, 1, float(text_tokens), 0)
        return self.alone_s(text_tokens, ()), pictured_s, tbt_s


@dataclass(frozen=True, slots=True)
class Traffic:
    """Real arrivals, lengths and numbers of pictures, of sizes that are drawn."""

    stages: Stages
    most_images: int = MOST_IMAGES
    image_share: float | None = None
    """Share of requests with pictures, which are then drawn from the trace's; None: as it is."""
    seed: int = 1
    slo_factor: float = 10.0
    """Of the objective that schedulers go by, in what the request would take alone: it grows with text and pictures."""
    answers: bool = True
    """Whether tokens behind the first are written here; else by others (prefill and decode apart)."""

    def requests(self, per_s: float, count: int = 0) -> list[PoolRequest]:
        """The first `count` requests of the two windows one after the other (0: all, 3,055) at this mean rate."""
        gaps, text, output, images = _rows()
        count = count or len(text)
        order = self._order(images, count)
        arrivals = np.cumsum(gaps[:count] / gaps[:count].mean() / per_s)
        draw = np.random.default_rng([self.seed, _PICTURES])
        made = []
        for at_s, row in zip(arrivals.tolist(), order.tolist(), strict=True):
            number = min(int(images[row]), self.most_images)
            pictures = tuple(self.stages.drawn_picture(draw) for _ in range(number))
            due_s = self.slo_factor * self.stages.alone_s(int(text[row]), pictures)
            written = int(output[row]) if self.answers else 1
            made.append(PoolRequest(at_s, int(text[row]), written, pictures, due_s))
        return made

    def _order(self, images: np.ndarray, count: int) -> np.ndarray:
        """Rows of the trace, one after the other, or drawn so that the share of pictures is as asked for."""
        if self.image_share is None:
            return np.arange(count)
        draw = np.random.default_rng([self.seed, _ARRIVALS])
        has = draw.random(count) < self.image_share
        with_images, without = np.flatnonzero(images > 0), np.flatnonzero(images == 0)
        return np.where(has, draw.choice(with_images, count), draw.choice(without, count))


def part_of_node(gpus: int) -> NodeConfig:
    """GPUs of a DGX A100, with their share of its cards."""
    gbps = NODE_GBPS * gpus / NODE_GPUS
    return NodeConfig(config_id(GPU, gpus, gbps), GPU, gpus, NVLINK_GBPS, gbps, 1900.0 * gpus / NODE_GPUS)


def median_text() -> int:
    return int(np.median(_rows()[1]))


@cache
def _rows() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(gaps, text tokens, output tokens, images) of all rows; a gap leads to its own row."""
    traces = [load_window(name) for name in WINDOWS]
    gaps = [np.diff(each.arrival_s, prepend=0.0) for each in traces]
    for each, own in zip(traces, gaps, strict=True):
        own[0] = each.duration_s / len(each.arrival_s)
    # The second window has its own mean rate: gaps are of one mean, so that a rate is one all along.
    scaled = [own / own.mean() for own in gaps]
    text = np.minimum(np.concatenate([each.prompt_tokens for each in traces]), MOST_TEXT)
    output = np.concatenate([each.output_tokens for each in traces])
    images = np.concatenate([each.units["images"] for each in traces])
    return np.concatenate(scaled), text, output, images


@cache
def stages_of(name: str) -> Stages:
    """Raises KeyError for another than `MODELS`."""
    return Stages(name)
