"""Requests that hold places and KV blocks of a pipeline, by the name of their run, and what the stages are to hear of
it."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from agents.messages.component_work import PromptRows
from agents.scheduler.block_book import BlockBook, BlockName
from agents.scheduler.given import RowsTaken, attended_rows, grids, wanted_rows
from agents.scheduler.groups import Groups
from agents.scheduler.layout import PipelineLayout
from agents.scheduler.orders import DropBlocks, Order, ReleaseKv, TakeRows
from agents.scheduler.sequence import ActiveRun, Sequence, SequencePhase
from agents.scheduler.victims import victims

_MOST_AWAIT = 16
"""Requests at once that wait for KV blocks of one before them."""


class Runs:
    def __init__(self, layout: PipelineLayout) -> None:
        self._layout = layout
        self.groups = Groups(layout)
        self.shares_kv = False
        """Whether requests begin with known KV blocks of others: the stages can, and are to."""
        self._coming: dict[bytes, int] = {}
        """Digest of a block that is still to be computed → the run that was first to need it."""
        self.some_await_blocks = False
        """Requests were not admitted as they wait for what is about to be ordered."""
        self.rows = RowsTaken()
        """What the stages take of other components' rows."""
        self._rows_held = Counter[int]()
        """Of them, by node of the first stage."""
        self._has_one_way = all(len(stage) == 1 for stage in layout.stages)
        self._begun = 0
        self._of: dict[int, Sequence] = {}
        self._due: list[Order] = []

    def __len__(self) -> int:
        return len(self._of)

    def get(self, run: int) -> Sequence | None:
        return self._of.get(run)

    def of_group(self, group: int) -> list[tuple[Sequence, ActiveRun]]:
        """Members of a group, or a lane, by their turns, each with what it holds now."""
        members = [(s, s.admission) for s in self._of.values() if s.admission and s.admission.group == group]
        return sorted(members, key=lambda member: member[0].turn)

    def of(self, runs: Collection[int]) -> list[Sequence]:
        return [sequence for run, sequence in self._of.items() if run in runs]

    def say(self, order: Order) -> None:
        """Have the stages hear it ahead of further steps."""
        self._due.append(order)

    def take_due(self) -> list[Order]:
        due, self._due = self._due, []
        return due

    def admit_first(self, waiting: list[Sequence], busy: Collection[int]) -> Iterator[tuple[Sequence, ActiveRun]]:
        """Admit waiting requests in order, and take them out: one that does not fit keeps those behind from starving
        it. Those that wait for blocks of one before them let others pass."""
        passed = 0
        while passed < min(len(waiting), _MOST_AWAIT):
            sequence = waiting[passed]
            if self._awaits_blocks(sequence):
                passed += 1
                continue
            held = self.admit(sequence, busy)
            if held is None:
                break
            del waiting[passed]
            yield sequence, held
        self.some_await_blocks = passed > 0

    def admit(self, sequence: Sequence, busy: Collection[int]) -> ActiveRun | None:
        """Give a request a place and blocks for all tokens that are known; None where it has to wait. `busy`: groups
        and lanes with a step under way."""
        tokens = sequence.needed_tokens
        blocks, most = self.blocks(tokens), self.blocks(sequence.most_cached)
        digests = self._digests_before(sequence, tokens)
        if sequence.is_prefill:
            place = self.groups.place_prompt(busy, blocks, tokens, digests)
        else:
            place = self.groups.place(blocks, most, digests)
        if place is None:
            return None
        group, nodes = place
        shared = digests[: self.groups.known_blocks(nodes, digests)]
        rows = sum(each.rows for each in self._rows_needed(sequence, len(shared)))
        before = self._rows_held[nodes[0]]
        if rows and before and before + rows > self.rows.most_held:
            return None  # those before it let theirs go with their first token; alone it may have more
        self._begun += 1
        self._rows_held[nodes[0]] += rows
        known = tuple(book.share(shared) for _, _, book in self._books(nodes))
        self._take(nodes, blocks - len(shared))
        there = len(shared) * self._layout.block_tokens
        held = ActiveRun(self._begun, group, nodes, blocks, tokens - there, known, there, there, given_rows=rows)
        held.published = len(shared)
        sequence.admission = held
        if sequence.cached_tokens is None:
            sequence.cached_tokens = there
        self.groups.join(group, nodes)
        self.groups.count_prompt(group, nodes, held.prompt)
        self._of[held.run] = sequence
        for digest in digests[len(shared) :]:
            self._coming.setdefault(digest, held.run)
        return held

    def looks_up(self, sequence: Sequence) -> bool:
        """Tell whether a request may begin with known KV blocks, and leaves some that others begin with."""
        return self.shares_kv and sequence.shares_blocks

    def move_to_soonest(self, held: ActiveRun, launched: Mapping[int, int]) -> None:
        """Move a run ahead of its first step to the group whose step is next: see `Groups.move_to_soonest`."""
        held.group = self.groups.move_to_soonest(held.group, held.nodes, launched)

    def grow(self, sequence: Sequence, held: ActiveRun, tokens: int) -> list[Sequence] | None:
        """Take blocks for so many tokens; the younger requests that gave up theirs for it, or None where older ones
        hold them."""
        needed = self.blocks(tokens) - held.blocks
        if needed <= 0:
            return []
        found = victims(sequence, held, needed, self._of.values(), self.groups.books)
        if found is None:
            return None
        for victim in found:
            self.stop(victim)
        self._take(held.nodes, needed)
        held.blocks += needed
        return found

    def room(self, held: ActiveRun) -> int:
        """Count the tokens that have room in the blocks that it holds, and those that nobody does while one is left for
        each request that runs, which may need it for its next token."""
        free = min(book.free for _, _, book in self._books(held.nodes))
        return (held.blocks - self.blocks(0) + max(0, free - len(self))) * self._layout.block_tokens

    def publish(self, sequence: Sequence, held: ActiveRun, end: int) -> None:
        """Let others begin with the blocks that a step fills, which computes the tokens before `end`. It is about to be
        ordered, or over, and every worker takes steps in order: whoever is told later finds the blocks written."""
        if not self.looks_up(sequence):
            return
        first, full = held.published, end // self._layout.block_tokens
        if first >= full:
            return
        held.published = full
        digests = sequence.block_digests(self._layout.block_tokens, full)
        self._comes_no_more(held, digests[first:])
        for stage, _, book in self._books(held.nodes):
            names = (BlockName(held.run, block) for block in range(first, full))
            held.known[stage].extend(name for name in names if book.publish(digests[name.block], name))

    def have_rows_taken(self, sequence: Sequence, held: ActiveRun) -> None:
        """Have the stages take what other components made of a request, as far as it is computed here."""
        given = sequence.request.given
        order = TakeRows(held.run, held.nodes, grids(given), wanted_rows(given, held.position), attended_rows(given))
        held.awaited_rows = order.taking_stages
        self.say(order)
        if sequence.phase is not SequencePhase.COMING:
            sequence.phase = SequencePhase.FETCHING if held.awaited_rows else SequencePhase.COMPUTED

    def stop(self, sequence: Sequence) -> None:
        """Take back what a request holds, if it does."""
        held = sequence.admission
        if held is not None:
            for stage, _, book in self._books(held.nodes):
                book.give_back(held.blocks - len(held.known[stage]), held.known[stage])
            self._comes_no_more(held, sequence.digests[held.position // self._layout.block_tokens :])
            self.groups.leave(held.group, held.nodes)
            self.put_off_no_more(held)
            del self._of[held.run]
            sequence.admission = None
            kept = tuple(tuple(name.block for name in known if name.run == held.run) for known in held.known)
            self.say(ReleaseKv(held.run, held.nodes, kept if any(kept) else ()))

    def blocks(self, tokens: int) -> int:
        """Blocks of a request with so many tokens, on each of its nodes."""
        return self._layout.blocks(tokens) + self._layout.blocks(self.rows.attended_rows)

    def put_off_no_more(self, held: ActiveRun) -> None:
        """Count its prompt no more among those to be computed, if it was, nor rows that stand for parts of it."""
        self._rows_held[held.nodes[0]] -= held.given_rows
        held.given_rows = 0
        if not held.has_sampled:
            self.groups.count_prompt(held.group, held.nodes, -held.prompt)

    def _rows_needed(self, sequence: Sequence, known_blocks: int) -> tuple[PromptRows, ...]:
        """Rows that its node of the first stage is to take, where so many of its blocks are there."""
        given = sequence.request.given
        if sequence.phase is SequencePhase.OFFERED:  # its prompt is computed elsewhere
            return attended_rows(given)
        return wanted_rows(given, known_blocks * self._layout.block_tokens) + attended_rows(given)

    def _digests_before(self, sequence: Sequence, tokens: int) -> list[bytes]:
        """Digests of the blocks that it could begin with: all full ones that leave a token to compute, which the next
        is sampled behind."""
        if not self.looks_up(sequence):
            return []
        return sequence.block_digests(self._layout.block_tokens, (tokens - 1) // self._layout.block_tokens)

    def _awaits_blocks(self, sequence: Sequence) -> bool:
        """Tell whether a request does well to wait: at least half of what it would compute is about to be computed for
        one that was admitted before, at the only node of each stage."""
        if not self._coming or not self._has_one_way or not self.looks_up(sequence):
            return False
        tokens = sequence.needed_tokens
        digests = self._digests_before(sequence, tokens)
        known = self.groups.known_blocks((0,) * len(self._layout.stages), digests)
        coming = next((n for n, each in enumerate(digests[known:]) if each not in self._coming), len(digests) - known)
        return 2 * coming * self._layout.block_tokens >= tokens - known * self._layout.block_tokens

    def _comes_no_more(self, held: ActiveRun, digests: Iterable[bytes]) -> None:
        for digest in digests:
            if self._coming.get(digest) == held.run:
                del self._coming[digest]

    def _take(self, nodes: tuple[int, ...], blocks: int) -> None:
        for stage, node, book in self._books(nodes):
            lost = book.take(blocks)
            if lost:
                self.say(DropBlocks(stage, node, tuple(lost)))

    def _books(self, nodes: tuple[int, ...]) -> Iterator[tuple[int, int, BlockBook]]:
        """Stage, node and book of each."""
        for stage, node in enumerate(nodes):
            yield stage, node, self.groups.books[stage][node]
