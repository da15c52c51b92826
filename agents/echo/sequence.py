"""One request as the echo scheduler holds it: its output is its own prompt, over and over."""

from collections.abc import Sequence

from agents.channels.peer import Peer
from agents.messages.to_gateway import FinishReason, TokenLogprobs, TokenRun
from agents.messages.to_scheduler import Generate, Leg


def echo_token(prompt: Sequence[int], index: int) -> int:
    """Output token `index`: a function of prompt and position alone, as sampling with a seed is."""
    return prompt[index % len(prompt)]


class EchoSequence:
    def __init__(self, peer: Peer, request: Generate, block_tokens: int) -> None:
        self.peer = peer
        self.request = request
        self.kv_blocks = -(-(len(request.prompt) + request.max_tokens) // block_tokens)
        """Held from admission to the end."""
        self._at = len(request.generated) + (1 if request.leg is Leg.DECODE else 0)

    @property
    def output_tokens(self) -> int:
        return self._at

    @property
    def makes_tokens(self) -> bool:
        """Tell whether it has any to make: a leg that gives its result to others has none."""
        return self.request.leg is Leg.PREFILL or not self.request.sends_to

    def advance(self, count: int) -> tuple[TokenRun | None, FinishReason | None]:
        """Make at most `count` more tokens; give the reason once it ends. A leg that hands the KV cache over makes
        one."""
        request, start = self.request, self._at
        if request.leg is Leg.PREFILL:
            count = 1
        stop = min(start + count, request.max_tokens)
        ids = [echo_token(request.prompt, index) for index in range(start, stop)]
        reason = FinishReason.LENGTH if stop >= request.max_tokens else None
        for n, token in enumerate(ids):
            if token in request.stop_ids:
                ids, reason = ids[:n], FinishReason.STOP
                break
        self._at = start + len(ids)
        if reason is None and request.leg is Leg.PREFILL:
            reason = FinishReason.HANDED_OFF
        logprobs = () if request.sampling.top_logprobs is None else tuple(map(self._certain, ids))
        return (TokenRun(request.attempt, start, tuple(ids), logprobs) if ids else None), reason

    def _certain(self, token: int) -> TokenLogprobs:
        """An echo has no doubts: probability 1."""
        return TokenLogprobs(0.0, ((token, 0.0),) if self.request.sampling.top_logprobs else ())
