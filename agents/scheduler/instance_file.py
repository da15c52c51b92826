"""The file that a scheduler is started with."""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from agents.scheduler.layout import PipelineLayout


class BadInstanceFileError(ValueError):
    """The file is not what it should be; the message says where."""


@dataclass(frozen=True, slots=True)
class InstanceFile:
    layout: PipelineLayout
    gateways: dict[str, str]
    """Public key → name."""
    workers: dict[str, str]
    """Public key → name of a node of the layout."""
    bind: str = "tcp://127.0.0.1:0"
    """For gateways."""
    bind_stages: str = "tcp://127.0.0.1:0"
    """For stage workers, on the private network."""
    interface: str = "127.0.0.1"
    """This node's address on the private network."""
    network: str = ""
    """Name of that network; empty: nobody said."""
    prefix_cache: bool = True
    """Whether prompts begin with KV blocks of those before them."""


def read_instance_file(path: Path) -> InstanceFile:
    """Raises BadInstanceFileError with the file's name and the field."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=InstanceFile)
    except (OSError, msgspec.MsgspecError) as error:
        raise BadInstanceFileError(f"instance file {path}: {error}") from error
