"""The worker processes of a layout: one for each pipeline part of each peer of each stage."""

from typing import NamedTuple

from agents.scheduler.layout import PipelineLayout


class WorkerPlace(NamedTuple):
    """Place of one worker in its pipeline."""

    stage: int
    node: int
    """Peer of the stage: a node, or a data-parallel replica inside one."""
    part: int = 0
    """Of the pipeline inside that."""

    @property
    def label(self) -> str:
        """Name links that end there: those of a peer of one part are called as they always were."""
        return f"{self.stage}.{self.node}" + (f".{self.part}" if self.part else "")


class Workers:
    """All of them, numbered along the way of the rows: by stage, peer and part."""

    def __init__(self, layout: PipelineLayout) -> None:
        """Raises ValueError where two would be the same worker of one node."""
        self._places: list[WorkerPlace] = []
        self._numbers: list[list[range]] = []
        """By stage and peer: of its parts."""
        self._of_node: dict[tuple[str, int], int] = {}
        for s, stage in enumerate(layout.stages):
            self._numbers.append([])
            for n, peer in enumerate(stage):
                first = len(self._places)
                self._numbers[s].append(range(first, first + peer.parts))
                self._places += [WorkerPlace(s, n, part) for part in range(peer.parts)]
                for part in range(peer.parts):
                    self._of_node[peer.name, peer.replica * peer.parts + part] = first + part
        if len(self._of_node) < len(self._places):
            raise ValueError("the replicas of a node have numbers of their own, and equally many parts")
        self.nodes: dict[str, list[int]] = {}
        """The workers of each node."""
        for (name, _), number in self._of_node.items():
            self.nodes.setdefault(name, []).append(number)
        self._names = {number: name for (name, _), number in self._of_node.items()}
        self._partners = {
            number: self._with(layout, number)
            for number, (stage, node, _) in enumerate(self._places)
            if layout.stages[stage][node].joint
        }

    def __len__(self) -> int:
        return len(self._places)

    def find(self, node: str, worker: int) -> int | None:
        """Return the number of a worker. `worker`: as the node counts its own, replica by replica and of each part by
        part."""
        return self._of_node.get((node, worker))

    def name(self, number: int) -> str:
        """Return the name of a worker's node."""
        return self._names[number]

    def place(self, number: int) -> WorkerPlace:
        return self._places[number]

    def number(self, place: WorkerPlace) -> int:
        return self._numbers[place.stage][place.node][place.part]

    def way(self, nodes: tuple[int, ...]) -> tuple[int, ...]:
        """All that the rows of a request pass that has these peers, one of each stage."""
        return tuple(number for stage, node in enumerate(nodes) for number in self._numbers[stage][node])

    def parts(self, stage: int, node: int) -> range:
        """The workers of one peer, in order."""
        return self._numbers[stage][node]

    def partners(self, number: int) -> tuple[int, ...]:
        """Return who takes part in its steps with it: the same part of other replicas."""
        return self._partners.get(number, ())

    def sources(self, number: int) -> tuple[int, ...]:
        """Return the numbers of the workers that send rows to it."""
        stage, _, part = self._places[number]
        if part:
            return (number - 1,)
        return tuple(peer[-1] for peer in self._numbers[stage - 1]) if stage else ()

    def targets(self, number: int) -> tuple[int, ...]:
        """Return the numbers of the workers that it sends rows to."""
        stage, node, part = self._places[number]
        if part < len(self._numbers[stage][node]) - 1:
            return (number + 1,)
        return tuple(peer[0] for peer in self._numbers[stage + 1]) if stage < len(self._numbers) - 1 else ()

    def _with(self, layout: PipelineLayout, number: int) -> tuple[int, ...]:
        stage, node, part = self._places[number]
        name = layout.stages[stage][node].name
        every = ((n, peer) for n, peer in enumerate(layout.stages[stage]) if n != node)
        return tuple(self._numbers[stage][n][part] for n, peer in every if peer.name == name and peer.joint)
