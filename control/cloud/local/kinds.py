"""The kinds of node that the local cloud has where a spec file names none, and what a node needs beside its model."""

from dataclasses import dataclass

from control.cloud.local.kind import LocalKind

PROCESSES_MIB = 448
"""Memory for a node's agent, its instance's scheduler and its engine's own code and activations, and for what is read
and not yet in place while weights are loaded: `python -m bench.local_throughput` prints what nodes take, and 40 MiB are
for the agent. Nodes with executors of apps have a sidecar as well: one that writes about pictures took 296 MiB beside
SmolLM2's weights and KV cache (27 November 2026), and `tests/e2e/test_up_with_pictures.py` holds nodes to this."""


@dataclass(frozen=True, slots=True)
class LocalMachine:
    """A kind of local node as it is sold: to a fleet, memory is what weights and KV cache may take."""

    name: str
    cpu_cores: float
    memory_mib: int
    stock: int
    usd_per_hour: float
    """Nominal: it makes the planner prefer less of this machine."""

    @property
    def kind(self) -> LocalKind:
        """Return the kind with the room for processes on top."""
        return LocalKind(self.name, self.cpu_cores, self.memory_mib + PROCESSES_MIB, self.stock)


DEFAULT_MACHINES = (
    LocalMachine("local-small", 0.2, 280, 3, 0.010),
    LocalMachine("local-medium", 0.3, 400, 1, 0.014),
    LocalMachine("local-large", 0.5, 500, 1, 0.022),
)
"""1.4 processors in all, which leaves some for the gateway and the control plane on a machine of two. None has room for
the 513 MiB of SmolLM2-135M in fp32, the default model."""
