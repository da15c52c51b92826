"""Room for launches once what is on its way out is gone, and what else would have to go. Private to one decision."""

from collections.abc import Callable, Iterable, Sequence

from control.diff.limits import Limits
from control.diff.running import Running
from control.diff.spending import Spending, refusal
from control.diff.supply import Ledger
from control.diff.target import Target


class Room:
    def __init__(self, ledger: Ledger, spending: Spending, limits: Limits) -> None:
        self._ledger, self._spending, self._limits = ledger.copy(), spending, limits

    def give(self, going: Iterable[Running]) -> None:
        """These are on their way out."""
        self._change(going, -1)

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
        """The first candidate, or else the fewest of the first few, that have to go so that one more of `target` fits;
        empty: none do, or they may not go."""
        for each in candidates:
            if self._fits_without(target, (each,)) and may_go((each,)):
                return (each,)
        going: tuple[Running, ...] = ()
        for each in candidates:
            if may_go((*going, each)):
                going = (*going, each)
            if len(going) > 1 and self._fits_without(target, going):
                for one in going:
                    others = tuple(other for other in going if other is not one)
                    going = others if self._fits_without(target, others) else going
                return going
        return ()

    def _fits_without(self, target: Target, going: Sequence[Running]) -> bool:
        """Without taking anything."""
        nodes = sum(target.nodes.values())
        self._change(going, -1)
        fits = refusal(self._limits, self._spending, target.usd_per_hour, nodes) is None
        if fits:
            taken = self._ledger.take(target.nodes, target.zone, target.market)
            fits = taken is not None
            for offer, count in (taken or {}).items():
                self._ledger.hold(offer, -count)
        self._change(going, 1)
        return fits

    def _change(self, of: Iterable[Running], sign: int) -> None:
        usd = 0.0
        for each in of:
            usd += each.held_usd_per_hour
            for node in each.instance.nodes:
                self._ledger.hold(node.offer, sign)
        self._spending = Spending(self._spending.usd_per_hour + sign * usd, self._spending.new_nodes)
