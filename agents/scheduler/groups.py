"""Who of a group is at which node: the split of `lockstep-v1`, and the KV blocks that it takes."""

from agents.scheduler.layout import NodeLimits, PipelineLayout


class Groups:
    """Counts of requests by group, stage and node, and free KV blocks by stage and node."""

    def __init__(self, layout: PipelineLayout) -> None:
        self._layout = layout
        self._members = [[[0] * len(stage) for stage in layout.stages] for _ in range(layout.groups)]
        self._free = [[node.kv_blocks for node in stage] for stage in layout.stages]

    def free(self, stage: int, node: int) -> int:
        return self._free[stage][node]

    @property
    def least_free(self) -> int:
        """Free blocks of the stage that has the fewest."""
        return min(sum(stage) for stage in self._free)

    def size(self, group: int) -> int:
        return sum(self._members[group][0])

    def place(self, group: int, blocks: int, most_blocks: int) -> tuple[int, ...] | None:
        """A node in each stage for one more request of the group; None where a stage has no room.

        In every stage the node whose count is furthest below its weight (highest quotient of D'Hondt): the split of a
        group stays proportional as requests come and go. `blocks`: to take now. `most_blocks`: it may grow to.
        """
        chosen = []
        for stage, nodes in enumerate(self._layout.stages):
            members = self._members[group][stage]
            open_nodes = [
                n
                for n, node in enumerate(nodes)
                if self._fits(node, most_blocks) and members[n] < node.batch_cap and self._free[stage][n] >= blocks
            ]
            if not open_nodes:
                return None
            chosen.append(min(open_nodes, key=lambda n: ((members[n] + 1) / nodes[n].weight, n)))
        return tuple(chosen)

    def could_ever_fit(self, most_blocks: int) -> bool:
        return all(any(self._fits(node, most_blocks) for node in stage) for stage in self._layout.stages)

    def join(self, group: int, nodes: tuple[int, ...], blocks: int) -> None:
        self._count(group, nodes, 1)
        self.take(nodes, blocks)

    def leave(self, group: int, nodes: tuple[int, ...], blocks: int) -> None:
        self._count(group, nodes, -1)
        self.take(nodes, -blocks)

    def take(self, nodes: tuple[int, ...], blocks: int) -> None:
        for stage, node in enumerate(nodes):
            self._free[stage][node] -= blocks

    def _count(self, group: int, nodes: tuple[int, ...], change: int) -> None:
        for stage, node in enumerate(nodes):
            self._members[group][stage][node] += change

    @staticmethod
    def _fits(node: NodeLimits, most_blocks: int) -> bool:
        return node.kv_blocks >= most_blocks
