"""Groups of requests and their nodes: the split of `lockstep-v1`, and of prompts in lanes."""

from collections.abc import Collection, Mapping, Sequence

from agents.scheduler.block_book import BlockBook
from agents.scheduler.layout import NodeLimits, PipelineLayout
from policies.lanes import joins, may_join


class Groups:
    """Counts of requests by group, stage and node, and KV blocks by stage and node. Behind the groups come the lanes of
    prefill legs."""

    def __init__(self, layout: PipelineLayout) -> None:
        self._layout = layout
        self._members = [[[0] * len(stage) for stage in layout.stages] for _ in range(layout.groups + layout.lanes)]
        self.books = [[BlockBook(node.kv_blocks) for node in stage] for stage in layout.stages]
        self._pending = [[0] * len(stage) for stage in layout.stages]
        """Prompt tokens in lanes that a node is to compute."""
        self._lane_tokens = [[[0] * len(stage) for stage in layout.stages] for _ in range(layout.lanes)]
        """The same by lane, and of how many prompts."""
        self._lane_prompts = [[[0] * len(stage) for stage in layout.stages] for _ in range(layout.lanes)]

    @property
    def kv_blocks(self) -> int:
        """Blocks of the stage that has the fewest, free or not."""
        return min(sum(book.blocks for book in stage) for stage in self.books)

    def resize(self, blocks: int) -> None:
        """Have so many blocks on each node, as far as those held allow."""
        for book in (book for stage in self.books for book in stage):
            book.resize(blocks)

    @property
    def least_free(self) -> int:
        """Free blocks of the stage that has the fewest."""
        return min(sum(book.free for book in stage) for stage in self.books)

    @property
    def prompt_tokens_free(self) -> int:
        """Tokens of one more prompt that there is KV cache for: on the node of each stage that has the most."""
        return min(max(book.free for book in stage) for stage in self.books) * self._layout.block_tokens

    @property
    def places(self) -> int:
        """Prompts that could be begun: an idle lane for each, or a place in a group. An instance does prompts alone or
        the whole, so what it does not do limits the other little."""
        lanes = sum(not any(prompts[0]) for prompts in self._lane_prompts)
        most = min(sum(node.batch_cap for node in stage) for stage in self._layout.stages)
        return min(lanes, sum(max(0, most - self._size(group)) for group in range(self._layout.groups)))

    def _size(self, group: int) -> int:
        return sum(self._members[group][0])

    def place(self, blocks: int, most_blocks: int, digests: Sequence[bytes] = ()) -> tuple[int, tuple[int, ...]] | None:
        """The smallest group that has room for one more request, and a node in each stage; None: there is none.
        `digests`: of the blocks that it begins with, in case a node knows them."""
        for group in sorted(range(self._layout.groups), key=self._size):
            nodes = self._place(group, blocks, most_blocks, digests)
            if nodes is not None:
                return group, nodes
        return None

    def _place(self, group: int, blocks: int, most_blocks: int, digests: Sequence[bytes]) -> tuple[int, ...] | None:
        """A node in each stage for one more request of the group; None where a stage has no room.

        In every stage the node whose count is furthest below its weight (highest quotient of D'Hondt): the split of a
        group stays proportional as requests come and go. Of equals, the one that knows more of how the text begins.
        `blocks`: to take now, if none is known. `most_blocks`: it may grow to.
        """
        chosen = []
        for stage, nodes in enumerate(self._layout.stages):
            members = self._members[group][stage]
            open_nodes = [
                n
                for n, node in enumerate(nodes)
                if self._fits(node, most_blocks) and members[n] < node.batch_cap and self.books[stage][n].free >= blocks
            ]
            if not open_nodes:
                return None
            known = {n: self.books[stage][n].find(digests) for n in open_nodes}
            chosen.append(min(open_nodes, key=lambda n: ((members[n] + 1) / nodes[n].weight, -known[n], n)))
        return tuple(chosen)

    def place_prompt(
        self, busy: Collection[int], blocks: int, tokens: int, digests: Sequence[bytes] = ()
    ) -> tuple[int, tuple[int, ...]] | None:
        """A lane and a node in each stage for a prompt of so many tokens; None where it is to wait. `digests`: of the
        blocks that it begins with, which a node that knows them does not compute.

        In every stage the node that will have computed it first. Of the lanes that are not `busy` with a step, and in
        which all of these have room, the fullest: prompts that are given out together share a step, as the table of
        their times reckons, and a step of one small prompt would take about as long. Where every lane has as many
        prompts of a node as go in one step, it waits for the next lane: another node is free because it is slow, and
        the step would take longer with it.
        """
        nodes = self._soonest(blocks, tokens, digests)
        if nodes is None:
            return None
        tokens -= self.known_blocks(nodes, digests) * self._layout.block_tokens
        idle = (lane for lane in range(self._layout.lanes) if self._layout.groups + lane not in busy)
        for lane in sorted(idle, key=lambda n: -sum(self._lane_tokens[n][0])):
            if all(self._takes_prompt(lane, stage, node, tokens) for stage, node in enumerate(nodes)):
                return self._layout.groups + lane, nodes
        return None

    def _soonest(self, blocks: int, tokens: int, digests: Sequence[bytes]) -> tuple[int, ...] | None:
        """The node of each stage that will have computed such a prompt first; None where a stage has no blocks."""
        chosen = []
        for stage, nodes in enumerate(self._layout.stages):
            books, pending = self.books[stage], self._pending[stage]
            with_room = [n for n in range(len(nodes)) if books[n].free >= blocks]
            if not with_room:
                return None
            left = {n: tokens - books[n].find(digests) * self._layout.block_tokens for n in with_room}
            chosen.append(min(with_room, key=lambda n: ((pending[n] + left[n]) / nodes[n].weight, n)))
        return tuple(chosen)

    def known_blocks(self, nodes: tuple[int, ...], digests: Sequence[bytes]) -> int:
        """Count the first of these blocks that each of the nodes knows, one of each stage."""
        return min(self.books[stage][node].find(digests) for stage, node in enumerate(nodes))

    def count_prompt(self, group: int, nodes: tuple[int, ...], tokens: int) -> None:
        """A prompt of so many tokens is to be computed there; below 0: no more. Only those in lanes are counted."""
        lane = group - self._layout.groups
        if lane < 0:
            return
        for stage, node in enumerate(nodes):
            self._lane_tokens[lane][stage][node] += tokens
            self._lane_prompts[lane][stage][node] += 1 if tokens > 0 else -1
            self._pending[stage][node] += tokens

    def _takes_prompt(self, lane: int, stage: int, node: int, tokens: int) -> bool:
        """One more in the same step; one alone may take several."""
        limits, prompts = self._layout.stages[stage][node], self._lane_prompts[lane][stage][node]
        before = self._lane_tokens[lane][stage][node]
        return not prompts or (prompts < limits.batch_cap and joins(tokens, before, limits.chunk_tokens))

    @property
    def longest_blocks(self) -> int:
        """Blocks of the longest request that could ever be served."""
        return min(max(node.kv_blocks for node in stage) for stage in self._layout.stages)

    def join(self, group: int, nodes: tuple[int, ...]) -> None:
        self._count(group, nodes, 1)

    def move_to_soonest(self, group: int, nodes: tuple[int, ...], launched: Mapping[int, int]) -> int:
        """Move a request of `group`, at these nodes, for its first step: to the group whose step is next, where that
        has room there and is about as small. `launched`: number of the step that a group has under way."""
        own, best = self._size(group), group
        for other in range(self._layout.groups):
            is_sooner = launched.get(other, 0) < launched.get(best, 0)
            if is_sooner and may_join(self._size(other), own) and self._has_seats(other, nodes):
                best = other
        self._count(group, nodes, -1)
        self._count(best, nodes, 1)
        return best

    def _has_seats(self, group: int, nodes: tuple[int, ...]) -> bool:
        members = self._members[group]
        return all(members[s][n] < self._layout.stages[s][n].batch_cap for s, n in enumerate(nodes))

    def leave(self, group: int, nodes: tuple[int, ...]) -> None:
        self._count(group, nodes, -1)

    def _count(self, group: int, nodes: tuple[int, ...], change: int) -> None:
        for stage, node in enumerate(nodes):
            self._members[group][stage][node] += change

    @staticmethod
    def _fits(node: NodeLimits, most_blocks: int) -> bool:
        return node.kv_blocks >= most_blocks
