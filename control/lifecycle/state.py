"""States of an instance. The same words stand in rows, in the API and in the console."""

from enum import StrEnum


class InstanceState(StrEnum):
    REQUESTED = "requested"
    """Wanted, and recorded. Nothing is rented."""
    PROVISIONING = "provisioning"
    """Nodes are being rented: from here on the instance may cost money."""
    BOOTSTRAPPING = "bootstrapping"
    """All its nodes exist; their agents are on their way up."""
    LOADING = "loading"
    """All its agents are known; its stages read weights and warm up."""
    READY = "ready"
    """The router may send it requests."""
    DRAINING = "draining"
    """The instance gets no new request and finishes those it has."""
    TERMINATING = "terminating"
    """Nodes are being given back."""
    TERMINATED = "terminated"
    """The cloud lists none of its nodes: it costs nothing, for ever."""
    FAILED = "failed"
    """The instance cannot serve. Nodes of it may still be rented."""
