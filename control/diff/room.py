"""Room for launches once what is on its way out is gone, and what else would have to go. Private to one decision."""

from collections.abc import Callable, Iterable, Sequence

from control.diff.limits import ChangeLimits
from control.diff.running import Running
from control.diff.spending import Spending, refusal
from control.diff.supply import Ledger
from control.diff.target import Target


class SupplyRoom:
    def __init__(self, ledger: Ledger, spending: Spending, limits: ChangeLimits) -> None:
        self._ledger, self._spending, self._limits = ledger.copy(), spending, limits

    def give(self, going: Iterable[Running]) -> None:
        """Free the supply of instances that are on their way out."""
        for each in going:
            self._change(each, -1)

    def take(self, target: Target) -> bool:
        """Room for one more of it, if there is any."""
        nodes = sum(target.nodes.values())
        if refusal(self._limits, self._spending, target.usd_per_hour, nodes) is not None:
            return False
        if self._ledger.take(target.nodes, target.zone, target.market) is None:
            return False
        self._spending = self._spending.with_launch(target.usd_per_hour, nodes)
        return True

    def victims(
        self, target: Target, candidates: Sequence[Running], may_go: Callable[[Sequence[Running]], bool]
    ) -> tuple[Running, ...]:
        """The first candidate, or else as few of the first few as do, that have to go so that one more of `target`
        fits; empty: none do, or they may not go."""
        relevant = self._ledger.rivals(target.nodes, target.zone, target.market)
        by_money = self._limits.max_usd_per_hour is not None
        near = [each for each in candidates if by_money or any(n.offer in relevant for n in each.instance.nodes)]
        for each in near:
            self._change(each, -1)
            fits = self._has_room(target)
            self._change(each, 1)
            if fits and may_go((each,)):
                return (each,)
        going: list[Running] = []
        for each in near:
            if not may_go((*going, each)):
                continue
            going.append(each)
            self._change(each, -1)
            if self._has_room(target):
                return self._fewest(target, going)
        self._bring_back(going)
        return ()

    def _fewest(self, target: Target, going: list[Running]) -> tuple[Running, ...]:
        """Return those of `going` without which there is no room; the others are brought back."""
        needed: list[Running] = []
        for each in going:
            self._change(each, 1)
            if not self._has_room(target):
                self._change(each, -1)
                needed.append(each)
        self._bring_back(needed)
        return tuple(needed)

    def _bring_back(self, those: Iterable[Running]) -> None:
        for each in those:
            self._change(each, 1)

    def _has_room(self, target: Target) -> bool:
        if refusal(self._limits, self._spending, target.usd_per_hour, sum(target.nodes.values())) is not None:
            return False
        taken = self._ledger.take(target.nodes, target.zone, target.market)
        for offer, count in (taken or {}).items():
            self._ledger.hold(offer, -count)
        return taken is not None

    def _change(self, each: Running, sign: int) -> None:
        for node in each.instance.nodes:
            self._ledger.hold(node.offer, sign)
        usd = self._spending.usd_per_hour + sign * each.held_usd_per_hour
        self._spending = Spending(usd, self._spending.new_nodes)
