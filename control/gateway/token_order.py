"""Puts an output's tokens in order: every token exactly once, whatever repeats or overtakes."""

from agents.messages.to_gateway import TokenLogprobs, TokenRun

_MAX_AHEAD = 4096
"""Tokens of a leg that may arrive before the one of the leg before it: a broken peer is cut off here."""


class TokenOrder:
    def __init__(self, next_seq: int) -> None:
        self.next_seq = next_seq
        """Index in the output of the token that comes next."""
        self._ahead: dict[int, TokenRun] = {}

    @property
    def has_gap(self) -> bool:
        """Something has come ahead of a missing token."""
        return bool(self._ahead)

    @property
    def is_overrun(self) -> bool:
        """More has come ahead of a missing token than any sane peer sends."""
        return bool(self._ahead) and sum(len(run.ids) for run in self._ahead.values()) > _MAX_AHEAD

    def push(self, run: TokenRun) -> tuple[list[int], list[TokenLogprobs]]:
        """The tokens that are next now, with their log-probabilities where there are any."""
        if run.seq == self.next_seq and not self._ahead:  # as good as always
            self.next_seq += len(run.ids)
            return list(run.ids), list(run.logprobs)
        if run.seq > self.next_seq:
            known = self._ahead.get(run.seq)
            if known is None or len(known.ids) < len(run.ids):
                self._ahead[run.seq] = run
            return [], []
        ids, logprobs = list[int](), list[TokenLogprobs]()
        due: TokenRun | None = run
        while due is not None:
            skip = self.next_seq - due.seq
            ids += due.ids[skip:]
            logprobs += due.logprobs[skip:]
            self.next_seq = max(self.next_seq, due.seq + len(due.ids))
            due = self._take_due()
        return ids, logprobs

    def _take_due(self) -> TokenRun | None:
        due = min((seq for seq in self._ahead if seq <= self.next_seq), default=None)
        return None if due is None else self._ahead.pop(due)
