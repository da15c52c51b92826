"""What a new node shall run, before it is known which node that is."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from control.access.secret import Secret

NODE_VARIABLE = "MEDLEY_NODE"
"""In a node's environment: its name, by which it registers."""
CLOUD_VARIABLE = "MEDLEY_CLOUD"
"""In a node's environment: whose machine it is."""
TOKEN_VARIABLE = "MEDLEY_BOOTSTRAP_TOKEN"  # noqa: S105
"""In a node's environment: the one-time token that it registers its key with."""


@dataclass(frozen=True, slots=True)
class NodeStart:
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    """Where to register, with whose public key; the executor adds the node's name and token."""
    secrets: Mapping[str, Secret] = field(default_factory=dict)
    """In its environment, too."""
    engines: frozenset[str] = frozenset({"torch"})
    """That its agent has."""
