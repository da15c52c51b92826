"""Fair shares of admitted work between accounts: projects, and API keys within them.

Dynamic thresholds (Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches", IEEE/ACM
Transactions on Networking 6(2), 1998): of a shared queue each account may hold `ALPHA` times what is free. Those that
ask for more than their share are held to the same level, whoever asks most often; those that ask for less never reach
it, and what they leave is the others'. Nobody needs to know how many accounts there are. An account that is alone may
fill the queue.

A project is held to its share as one account, however many keys it has and however new they are: a key is judged by all
that its project has, plus what the key has more (or less) than the project's usual key. So a project may pass its
level by what its usual key has, and keys that have little go before those that have much.

Work is counted in seconds of the capacity of its class. Admitted work is taken to be done in proportion to what each
account has of it, so that one factor stands for the progress of all.
"""

from dataclasses import dataclass

from policies.fair_order import Account

ALPHA = 2.0
"""Times what is free that one account may hold: two that flood a queue fill 4/5 of it, ten 20/21."""
_RENEW_AT = 0.01
"""Progress at which all figures are written down anew, without those that have become nothing."""
_NOTHING_S = 1e-3


@dataclass(slots=True)
class _Project:
    keys: int = 0
    seconds: float = 0.0
    squares: float = 0.0
    """Sum of the squares of its keys' seconds."""


class FairShare:
    """What each account has of the admitted work of one class. Time is an argument and never goes back."""

    def __init__(self) -> None:
        self._at_s = 0.0
        self._left = 1.0
        """What is left of each second of work that was there when `_keys` was written down."""
        self._keys: dict[Account, float] = {}
        """Seconds of work, divided by `_left` as it was when they were booked."""
        self._projects: dict[str, _Project] = {}
        """The same, added up."""

    def advance(self, done_at_s: float, now_s: float) -> None:
        """Note the progress since the last call. `done_at_s`: when all work that is booked is done."""
        before_s, ahead_s, self._at_s = done_at_s - self._at_s, done_at_s - now_s, now_s
        if ahead_s <= 0.0:
            self._write_down({})
        elif ahead_s < before_s:
            self._left *= ahead_s / before_s
            if self._left < _RENEW_AT:
                held = {account: own_s * self._left for account, own_s in self._keys.items()}
                self._write_down({account: own_s for account, own_s in held.items() if own_s > _NOTHING_S})

    def wait_s(self, account: Account, ahead_s: float, most_s: float) -> float:
        """Seconds until the account may book more, if nobody else comes; 0: now. `ahead_s`: work of all accounts;
        `most_s`: that may be."""
        project, own_s = self._projects.get(account[0]), self._keys.get(account)
        if project is None or project.seconds <= 0.0 or (len(self._keys) == 1 and own_s is not None):
            return 0.0
        if len(self._projects) == 1 or (project.keys == 1 and own_s is not None):
            # No other project's share, or no other key's, is at stake: keys of a project share alike.
            held_s = self._left * min(project.seconds, (own_s or 0.0) * project.keys)
        else:
            # A new key has nothing yet: only the project's sum bounds what many of them get. Who has less than the key
            # that a mean second of the project's work belongs to goes first: where one key has nearly all, others need
            # not wait for it; where many have a little each, nobody goes much before the rest.
            usual_s = project.squares / project.seconds
            held_s = self._left * max(0.0, project.seconds + (own_s or 0.0) - usual_s)
        over_s = held_s - ALPHA * (most_s - ahead_s)
        # With each second more is free, and the account's part of what was done is not held any more.
        return max(0.0, over_s / (ALPHA + min(1.0, held_s / max(ahead_s, _NOTHING_S))))

    def add(self, account: Account, seconds: float) -> None:
        """Book work; a negative number gives it back."""
        before_s = self._keys.get(account)
        own_s = max(0.0, (before_s or 0.0) + seconds / self._left)
        project = self._projects.setdefault(account[0], _Project())
        project.keys += before_s is None
        project.seconds = max(0.0, project.seconds + own_s - (before_s or 0.0))
        project.squares = max(0.0, project.squares + own_s**2 - (before_s or 0.0) ** 2)
        self._keys[account] = own_s

    def _write_down(self, held_s: dict[Account, float]) -> None:
        self._left = 1.0
        self._keys.clear()
        self._projects.clear()
        for account, own_s in held_s.items():
            self.add(account, own_s)
