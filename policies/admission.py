"""Admission: a class of work takes no more than its instances can do within the wait that its objective allows.

The generic cell rate algorithm (ITU-T I.371) in units of work: for each class the time by which all admitted work is
done is kept. A request is refused when that lies further ahead than `max_wait_s`, and is told when to come again. For
higher priorities that is further ahead than for lower ones, so that a flood of these leaves them room. While several
accounts ask for more than there is, each has its fair share of what is admitted (`policies.fair_share`).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf

from policies.fair_order import Account
from policies.fair_share import FairShare
from policies.priority import Priority
from policies.routing_table import ClassRate
from templates_lib.values.work import Unit

Booking = Callable[[str, Account, float], None]
"""Of a work class, whose work it is, and seconds of the class's capacity; below 0 what is given back."""

WAIT_SHARES = (2.0, 1.0, 0.5)
"""Of `max_wait_s`, by rank of a priority: how far ahead its requests may be booked."""


@dataclass(frozen=True, slots=True)
class WorkRule:
    """Work of one class that a request is charged, by the tokens of its prompt and of its answer."""

    work: str
    """The work class."""
    units_per_s: float = 0.0
    """Capacity of the class now."""
    per_request: float = 0.0
    per_prompt_token: float = 0.0
    per_output_token: float = 0.0

    def charge(self, prompt_tokens: float, output_tokens: float, account: Account = ("", "")) -> "Charge":
        """`output_tokens`: as they are expected."""
        units = units_of(self.per_request, self.per_prompt_token, self.per_output_token, prompt_tokens, output_tokens)
        return Charge(self.work, units, self.units_per_s, self.per_output_token, account)


@dataclass(frozen=True, slots=True)
class Charge:
    """Work that a request asks of one class."""

    work: str
    """The work class."""
    units: float
    units_per_s: float
    """Capacity of the class now; 0 when nothing serves it."""
    per_output_token: float = 0.0
    """Units that each token of the answer takes: of `units`, those that are expected and not made are given back."""
    account: Account = ("", "")
    """Who asks."""

    @property
    def seconds(self) -> float:
        """Time in which its class does nothing else."""
        return self.units / self.units_per_s


@dataclass(frozen=True, slots=True)
class Refusal:
    work: str
    retry_after_s: float
    """Time until the class has room again, if nobody else comes; `inf` while it has no capacity at all."""
    is_of_share: bool = False
    """There is room, but others ask for it too, who have less."""


def wait_s(done_at_s: float, now_s: float) -> float:
    """Seconds of admitted work ahead. The simulator compiles this, `done_s` and `units_of` as they are."""
    return max(done_at_s - now_s, 0.0)


def done_s(done_at_s: float, now_s: float, units: float, units_per_s: float) -> float:
    """Time at which all admitted work is done, with `units` more."""
    return max(done_at_s, now_s) + units / units_per_s


def units_of(
    per_request: float, per_prompt_token: float, per_output_token: float, prompt_tokens: float, output_tokens: float
) -> float:
    """Units that a request takes of a class, by a `WorkRule`'s figures and its own tokens."""
    return per_request + per_prompt_token * prompt_tokens + per_output_token * output_tokens


def work_rules(rates: Iterable[ClassRate]) -> Mapping[str, WorkRule]:
    """Rule of each class: routes share requests, which take tokens of their own, of other units those of a mean one."""
    found: dict[str, WorkRule] = {}
    for rate in rates:
        leg = rate.leg
        name, more = {
            Unit.PROMPT_TOKEN: ("per_prompt_token", rate.share),
            Unit.OUTPUT_TOKEN: ("per_output_token", rate.share),
        }.get(leg.unit, ("per_request", rate.share * leg.units_per_request))
        rule = found.get(leg.work_class, WorkRule(leg.work_class, rate.units_per_s))
        found[leg.work_class] = replace(rule, **{name: getattr(rule, name) + more})
    return found


class Admission:
    """Time is an argument and never goes back; the same object serves in the simulator."""

    def __init__(self, max_wait_s: float, booked: Booking | None = None) -> None:
        """`max_wait_s`: how much admitted work may be waiting, seconds of a class's capacity. `booked` is called with
        all that is booked here, for others who admit work for the same instances and `note` it."""
        self._max_wait_s = max_wait_s
        self._booked = booked
        self._done_at_s: dict[str, float] = {}
        self._shares: dict[str, FairShare] = {}

    def admit(
        self, charges: tuple[Charge, ...], now_s: float, priority: Priority = Priority.STANDARD
    ) -> Refusal | None:
        """All charges are booked, or (the worst refusal is returned and) none."""
        most_s = self._max_wait_s * WAIT_SHARES[priority.rank]
        refusals = [refusal for charge in charges if (refusal := self._refusal(charge, now_s, most_s)) is not None]
        if refusals:
            return max(refusals, key=lambda refusal: refusal.retry_after_s)
        for charge in charges:
            last_s = self._done_at_s.get(charge.work, now_s)
            self._done_at_s[charge.work] = done_s(last_s, now_s, charge.units, charge.units_per_s)
            self._share(charge, charge.seconds)
        return None

    def give_back(self, charge: Charge) -> None:
        """Give back work that was booked and will not be done, at the rate it was booked at."""
        if charge.work in self._done_at_s:
            self._done_at_s[charge.work] -= charge.seconds
            self._share(charge, -charge.seconds)

    def note(self, work: str, account: Account, seconds: float, now_s: float) -> None:
        """Note what was booked, or (below 0) given back, by others. `work`: the work class."""
        last_s = self._done_at_s.get(work, now_s)
        share = self._shares.setdefault(work, FairShare())
        share.advance(last_s, now_s)
        share.add(account, seconds)
        self._done_at_s[work] = last_s + seconds if seconds < 0 else done_s(last_s, now_s, seconds, 1.0)

    def wait_s(self, work: str, now_s: float) -> float:
        """Seconds of admitted work ahead."""
        return wait_s(self._done_at_s.get(work, now_s), now_s)

    def _share(self, charge: Charge, seconds: float) -> None:
        self._shares[charge.work].add(charge.account, seconds)
        if self._booked is not None:
            self._booked(charge.work, charge.account, seconds)

    def _refusal(self, charge: Charge, now_s: float, most_s: float) -> Refusal | None:
        if charge.units_per_s <= 0:
            return Refusal(charge.work, inf)
        ahead_s = self.wait_s(charge.work, now_s)
        if ahead_s > most_s:
            return Refusal(charge.work, ahead_s - most_s)
        share = self._shares.setdefault(charge.work, FairShare())
        share.advance(self._done_at_s.get(charge.work, now_s), now_s)
        wait_s_ = share.wait_s(charge.account, ahead_s, most_s)
        return Refusal(charge.work, wait_s_, is_of_share=True) if wait_s_ > 0 else None
