"""The scheduler of a node as a program, and the file that it is started with."""

import sys
from pathlib import Path

import msgspec
from msgspec.structs import astuple

from agents.messages.to_node import RunScheduler
from agents.node.settings import NodeSettings
from agents.scheduler.instance_file import InstanceFile
from agents.scheduler.layout import NodeLimits, PipelineLayout

AGENT = "agent"
"""What the agent is called at its own scheduler, which it asks for its status like a gateway."""


def scheduler_command(
    model: str, run: RunScheduler, own_key: str, key: Path, settings: NodeSettings
) -> tuple[str, ...]:
    """Writes the instance file. `own_key`: the public key of the agent itself. ValueError: no such pipeline."""
    stages = tuple(tuple(NodeLimits(*astuple(share)) for share in peers) for peers in run.stages)
    layout = PipelineLayout(model, stages, run.block_tokens, run.max_context_tokens, run.vocab_size)
    anywhere = f"tcp://{settings.interface}:0"
    gateways = {**run.gateways, own_key: AGENT}
    content = InstanceFile(layout, gateways, run.workers, anywhere, anywhere, settings.interface)
    path = settings.home / "instance.json"
    path.write_bytes(msgspec.json.encode(content))
    return (sys.executable, "-m", "agents.scheduler", "--instance", str(path), "--key", str(key))
