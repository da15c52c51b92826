"""The scheduler of a node as a program, and the file that it is started with."""

import sys
from pathlib import Path

import msgspec
from msgspec.structs import astuple

from agents.messages.to_node import Run, RunScheduler
from agents.node.settings import NodeSettings
from agents.scheduler.instance_file import InstanceFile
from agents.scheduler.layout import NodeLimits, PipelineLayout
from templates_lib.values.engines import engine_kind

AGENT = "agent"
"""What the agent is called at its own scheduler, which it asks for its status like a gateway."""


def scheduler_command(
    run: Run, scheduler: RunScheduler, own_key: str, key: Path, settings: NodeSettings
) -> tuple[str, ...]:
    """Writes the instance file. `own_key`: the public key of the agent itself. Raises ValueError for unknown stages or
    an unknown engine."""
    stages = tuple(tuple(NodeLimits(*astuple(share)) for share in peers) for peers in scheduler.stages)
    limits = scheduler.block_tokens, scheduler.max_context_tokens, scheduler.vocab_size
    layout = PipelineLayout(run.model, stages, *limits)
    anywhere = f"tcp://{settings.interface}:0"
    gateways = {**scheduler.gateways, own_key: AGENT}
    content = InstanceFile(layout, gateways, scheduler.workers, anywhere, anywhere, settings.interface)
    path = settings.home / f"{run.executor}.json"
    path.write_bytes(msgspec.json.encode(content))
    return (sys.executable, "-m", engine_kind(run.engine).scheduler, "--instance", str(path), "--key", str(key))
