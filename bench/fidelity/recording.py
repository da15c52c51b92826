"""A real run as a small file, so that simulations can be compared with it at any time."""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.fidelity.shapes import Part

FORMAT = "medley/fidelity/v1"


@dataclass(frozen=True, slots=True)
class Seen:
    """One request, in seconds since the run began."""

    arrival_s: float
    prompt_tokens: int
    output_tokens: int
    token_s: tuple[float, ...]
    """When each token of its output came."""


@dataclass(frozen=True, slots=True)
class NodeUse:
    instance: int
    name: str
    kind: str
    cpu_s: float
    """Processor time during the run, of all its processes."""
    engine_s: float
    """In which its engine had a step."""


@dataclass(frozen=True, slots=True)
class MachineUse:
    """Processor seconds of the whole machine during the run."""

    busy_s: float
    """Of processes of ordinary priority, the run's own among them."""
    nice_s: float
    """Of those that stand back."""
    stolen_s: float
    """By other guests of the machine that this one runs on."""

    def since(self, before: "MachineUse") -> "MachineUse":
        return MachineUse(self.busy_s - before.busy_s, self.nice_s - before.nice_s, self.stolen_s - before.stolen_s)


@dataclass(frozen=True, slots=True)
class Recording:
    format: str
    shape: str
    load: float
    """Share of the templates' throughput that was offered."""
    parts: tuple[Part, ...]
    began_at: str
    """ISO 8601, UTC."""
    length_s: float
    nodes: tuple[NodeUse, ...]
    machine: MachineUse
    client_cpu_s: float
    requests: tuple[Seen, ...]
    """By arrival."""

    @property
    def nodes_cpu_s(self) -> float:
        return sum(node.cpu_s for node in self.nodes)

    @property
    def others_cores(self) -> float:
        """Processors that were busy with something else, at a priority that the run had to share with."""
        ours_s = self.client_cpu_s + self.nodes_cpu_s
        return max(0.0, (self.machine.busy_s + self.machine.stolen_s - ours_s) / self.length_s)


def write(recording: Recording, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.encode(recording))


def read(path: Path) -> Recording:
    """Raises ValueError for a file that is none."""
    found = msgspec.json.decode(path.read_bytes(), type=Recording)
    if found.format != FORMAT:
        raise ValueError(f"{path} is of format {found.format}, not {FORMAT}: record it again")
    return found
