"""Requests that hold places and KV blocks of a pipeline, by the name of their run, and what the stages are to hear of
it."""

from collections.abc import Collection, Mapping

from agents.scheduler.groups import Groups
from agents.scheduler.layout import PipelineLayout
from agents.scheduler.orders import Order, ReleaseKv
from agents.scheduler.sequence import ActiveRun, Sequence
from agents.scheduler.victims import victims


class Runs:
    def __init__(self, layout: PipelineLayout) -> None:
        self._layout = layout
        self.groups = Groups(layout)
        self._begun = 0
        self._of: dict[int, Sequence] = {}
        self._due: list[Order] = []

    def __len__(self) -> int:
        return len(self._of)

    def get(self, run: int) -> Sequence | None:
        return self._of.get(run)

    def of_group(self, group: int) -> list[tuple[Sequence, ActiveRun]]:
        """Members of a group, or a lane, by arrival, each with what it holds now."""
        members = [(s, s.admission) for s in self._of.values() if s.admission and s.admission.group == group]
        return sorted(members, key=lambda member: member[0].arrival)

    def of(self, runs: Collection[int]) -> list[Sequence]:
        return [sequence for run, sequence in self._of.items() if run in runs]

    def say(self, order: Order) -> None:
        """Have the stages hear it ahead of further steps."""
        self._due.append(order)

    def take_due(self) -> list[Order]:
        due, self._due = self._due, []
        return due

    def admit(self, sequence: Sequence, busy: Collection[int]) -> ActiveRun | None:
        """Give a request a place and blocks for all tokens that are known; None where it has to wait. `busy`: groups
        and lanes with a step under way."""
        tokens = sequence.needed_tokens
        blocks, most = self._layout.blocks(tokens), self._layout.blocks(sequence.most_cached)
        if sequence.is_prefill:
            place = self.groups.place_prompt(busy, blocks, tokens)
        else:
            place = self.groups.place(blocks, most)
        if place is None:
            return None
        group, nodes = place
        self._begun += 1
        held = sequence.admission = ActiveRun(self._begun, group, nodes, blocks, tokens)
        self.groups.join(group, nodes, blocks)
        self.groups.count_prompt(group, nodes, tokens)
        self._of[held.run] = sequence
        return held

    def move_to_soonest(self, held: ActiveRun, launched: Mapping[int, int]) -> None:
        """Move a run ahead of its first step to the group whose step is next: see `Groups.move_to_soonest`."""
        held.group = self.groups.move_to_soonest(held.group, held.nodes, launched)

    def grow(self, sequence: Sequence, held: ActiveRun, tokens: int) -> list[Sequence] | None:
        """Take blocks for so many tokens; the younger requests that gave up theirs for it, or None where older ones
        hold them."""
        needed = self._layout.blocks(tokens) - held.blocks
        if needed <= 0:
            return []
        found = victims(sequence, held, needed, self._of.values(), self.groups)
        if found is None:
            return None
        for victim in found:
            self.stop(victim)
        self.groups.take(held.nodes, needed)
        held.blocks += needed
        return found

    def stop(self, sequence: Sequence) -> None:
        """Take back what a request holds, if it does."""
        held = sequence.admission
        if held is not None:
            self.groups.leave(held.group, held.nodes, held.blocks)
            self.put_off_no_more(held)
            del self._of[held.run]
            sequence.admission = None
            self.say(ReleaseKv(held.run, held.nodes))

    def put_off_no_more(self, held: ActiveRun) -> None:
        """Count its prompt no more among those to be computed, if it was."""
        if not held.has_sampled:
            self.groups.count_prompt(held.group, held.nodes, -held.prompt)
