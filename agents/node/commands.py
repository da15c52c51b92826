"""The programs of a node, and the file that its scheduler is started with."""

import sys
from pathlib import Path

import msgspec

from agents.messages.to_node import Engine, RunScheduler, RunStage
from agents.node.settings import NodeSettings
from agents.scheduler.instance_file import InstanceFile
from agents.scheduler.layout import NodeLimits, PipelineLayout
from templates_lib.weights_place import weights_path

AGENT = "agent"
"""What the agent is called at its own scheduler, which it asks for its status like a gateway."""


def scheduler_command(
    model: str, run: RunScheduler, own_key: str, key: Path, settings: NodeSettings
) -> tuple[str, ...]:
    """Writes the instance file. `own_key`: the public key of the agent itself. ValueError: no such pipeline."""
    stages = tuple(
        tuple(NodeLimits(s.name, s.weight, s.batch_cap, s.chunk_tokens, s.kv_blocks) for s in peers)
        for peers in run.stages
    )
    layout = PipelineLayout(model, stages, run.block_tokens, run.max_context_tokens, run.vocab_size)
    anywhere = f"tcp://{settings.interface}:0"
    gateways = {**run.gateways, own_key: AGENT}
    content = InstanceFile(layout, gateways, run.workers, anywhere, anywhere, settings.interface)
    path = settings.home / "instance.json"
    path.write_bytes(msgspec.json.encode(content))
    return (sys.executable, "-m", "agents.scheduler", "--instance", str(path), "--key", str(key))


def stage_command(engine: Engine, run: RunStage, key: Path, settings: NodeSettings) -> tuple[str, ...]:
    """Raises NoWeightsError, and ValueError for an engine that this node does not have."""
    python = Path(sys.executable) if engine is Engine.TORCH else settings.vllm_python
    if python is None:
        raise ValueError("this node has no vLLM: MEDLEY_VLLM_PYTHON is to name the Python of its environment")
    checkpoint = weights_path(run.weights)
    memory = ("--memory-mib", str(run.memory_mib)) if run.memory_mib else ()
    return (
        *(str(python), "-m", "agents.stage", "--engine", engine.value),
        *("--scheduler", run.scheduler, f"--scheduler-key={run.scheduler_key}"),
        *("--key", str(key), "--checkpoint", str(checkpoint), "--dtype", run.dtype),
        *("--first-layer", str(run.first_layer), "--layers", str(run.layers), "--kv-blocks", str(run.kv_blocks)),
        *("--threads", str(settings.threads), "--pace", str(settings.pace), "--interface", settings.interface),
        *_devices(run, settings.device),
        *memory,
    )


def _devices(run: RunStage, kind: str) -> tuple[str, ...]:
    names = [kind] if run.shards == 1 else [f"{kind}:{n}" if kind != "cpu" else kind for n in range(run.shards)]
    whole = ("--whole-experts",) if run.whole_experts else ()
    return (*(part for name in names for part in ("--device", name)), *whole)
