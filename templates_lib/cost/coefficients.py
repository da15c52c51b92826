"""The numbers of the estimated cost model. None of them is keyed by a model."""

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import msgspec

from templates_lib.values.nearest_name import nearest_name

FILE = "perf/estimated_coefficients.json"


@dataclass(frozen=True, slots=True)
class Kernel:
    """Time of one kind of kernel: launch_s + row_s · rows + a smooth maximum of flops / (peak · compute) and
    bytes / (bandwidth · memory)."""

    compute: float
    memory: float
    launch_s: float
    pad_rows: float = 0.0
    """Rows added to a product (experts: to each expert's; prefill attention: keys added to the context): tiles are
    computed whole, so that a thin product costs as much as a thicker one."""
    pad_columns: float = 0.0
    """Columns added to a product: a small one does not fill the card."""
    row_s: float = 0.0
    """Seconds a row: tokens sorted by expert; (request, head) pairs of decode attention."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Measurements on which a part of a card's numbers rests."""

    gpu: str
    """The card itself, the card that lends its numbers, or several for a median."""
    rows: int
    """Measured rows that were fitted; 0 where a number was set by analogy."""
    what: str


@dataclass(frozen=True, slots=True)
class GpuCoefficients:
    """Efficiencies of one GPU type."""

    evidence: str
    """Measurements made on this card, or the card that lends its numbers."""
    origins: dict[str, Origin]
    """Origins by part: gemm, experts, prefill_attention, decode_attention, links."""
    gemm: dict[str, Kernel]
    """Kernels by compute format: bf16, fp8, fp4, and `dequantised` (weights widened to bf16 on the way in)."""
    experts: dict[str, Kernel]
    """Fused mixture-of-experts feed-forward, by the same formats; rows are padded per expert."""
    prefill_attention: Kernel
    decode_attention: Kernel


@dataclass(frozen=True, slots=True)
class Link:
    """Transfers over one kind of link among `peers` GPUs: latency_s + traffic / (link bandwidth · efficiency)."""

    peers: int
    latency_s: float
    efficiency: float


@dataclass(frozen=True, slots=True)
class LinkGroups:
    """A kind of link for groups of rising size; groups larger than any measured one take its numbers."""

    groups: tuple[Link, ...]

    def among(self, peers: int) -> Link:
        return next((link for link in self.groups if link.peers >= peers), self.groups[-1])


@dataclass(frozen=True, slots=True)
class LayerOverhead:
    """Seconds a layer beside its large kernels: norms, rotary embedding, cache writes, gaps between launches."""

    every_s: float
    experts_s: float
    """More in a layer with routed experts: routing, sorting."""
    latent_s: float
    """More in a layer with multi-head latent attention: its absorbed products, for which no table was measured."""


@dataclass(frozen=True, slots=True)
class EngineOverhead:
    """Seconds that a serving engine adds to the kernels."""

    evidence: str
    step_s: float
    """Host work of an iteration: scheduling, sampling, detokenisation."""
    prompt_step_s: float
    """Extra host work of an iteration that holds prompt tokens (no CUDA graph)."""
    request_s: float
    """Host work per decoding request."""
    prompt_token_s: float
    """Host work per prompt token."""
    kernel_scale: float
    """Time of a kernel inside the engine over its time alone."""
    link_wait: float
    """Latency of a transfer between GPUs inside the engine over its latency alone: the slowest peer is waited for."""
    layer: LayerOverhead
    prompt_layer: LayerOverhead
    """Added to `layer` in iterations that hold prompt tokens."""


@dataclass(frozen=True, slots=True)
class ServingOverhead:
    """Waits of a closed-loop client of an engine, beyond the time of single iterations (validation only)."""

    first_token_s: float
    """Network, tokeniser and HTTP of the first token."""
    hand_off_s: float
    """More before the first token where prefill and decode are apart: routing, hand-off of the KV cache."""
    wait_steps: float
    """Decode iterations that a new prompt waits for."""
    queued: float
    """Prompts of the other clients that are ahead of a new one, per client, aggregated serving."""
    queued_apart: float
    """The same before a prefill worker of disaggregated serving."""
    stall: float
    """Share of the other clients' prefill time that delays a decoding request."""
    unstated_scale: float
    unstated_power: float
    """Clients per decode worker where a row does not state the workers: scale · concurrency ^ power."""
    unstated_queue_scale: float
    unstated_queue_power: float
    """The same per prefill worker."""
    unstated_hand_off_s: float
    """`hand_off_s` of such rows; connections among workers that nobody counted are made in it."""


@dataclass(frozen=True, slots=True)
class Setup:
    """An engine as one release ran on one machine type, and how its clients saw it (validation only)."""

    engine: EngineOverhead
    serving: ServingOverhead


@dataclass(frozen=True, slots=True)
class Coefficients:
    """All of it, with where it came from."""

    version: int
    date: str
    source: str
    gpus: dict[str, GpuCoefficients]
    fallback: GpuCoefficients
    """Coefficients of GPUs that nobody measured: the median card on its data-sheet peaks."""
    links: dict[str, LinkGroups]
    """GPU → its own kind of link, where collectives were measured."""
    nvlink: LinkGroups
    """Links of other GPUs, scaled by the bandwidth of the node's links."""
    pcie: LinkGroups
    network: Link
    engines: dict[str, EngineOverhead]
    """Engines by name, over all their releases and machines: plans are made with these."""
    serving: dict[str, ServingOverhead]
    setups: dict[str, Setup]
    """Setups by `setup_names`: releases, and releases on a machine type, with enough measured deployments of their
    own."""

    @property
    def fingerprint(self) -> str:
        return hashlib.blake2b(msgspec.json.encode(self, order="sorted"), digest_size=16).hexdigest()

    def gpu(self, name: str) -> GpuCoefficients:
        return self.gpus.get(name, self.fallback)

    def engine(self, name: str) -> EngineOverhead:
        """Raises ValueError with the nearest name for an engine without coefficients."""
        if name not in self.engines:
            raise ValueError(f"no cost coefficients for engine {name!r}; {nearest_name(name, self.engines)}")
        return self.engines[name]

    def setup(self, engine: str, release: str, system: str) -> Setup:
        """The most particular setup that was measured. Raises KeyError for an engine that was not."""
        for name in reversed(setup_names(engine, release, system)):
            if name in self.setups:
                return self.setups[name]
        return Setup(self.engines[engine], self.serving[engine])


def setup_names(engine: str, release: str, system: str) -> tuple[str, str]:
    """A release, and the release on one machine type; an unstated release is one of its own."""
    of_release = f"{engine} {release or 'release not stated'}"
    return of_release, f"{of_release} on {system}"


@cache
def load_coefficients() -> Coefficients:
    """The fitted coefficients that ship with the package (made by `bench/extracts/fit_cost_model.py`)."""
    text = files("templates_lib").joinpath("data", *FILE.split("/")).read_bytes()
    return msgspec.json.decode(text, type=Coefficients)
