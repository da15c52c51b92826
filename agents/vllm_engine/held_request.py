"""One request as the scheduler of a vLLM instance holds it."""

from dataclasses import dataclass, field

from agents.channels.peer import Peer
from agents.messages.to_gateway import Finished, FinishReason, TokenLogprobs, TokenRun
from agents.messages.to_scheduler import Generate, Leg
from agents.vllm_engine.exchange import Ask, Made


@dataclass(slots=True, eq=False)
class HeldRequest:
    id: str
    """Names it to vLLM; unique in this process."""
    gateway: Peer
    request: Generate
    limit: int
    """Tokens of the whole output."""
    expires_s: float
    output_tokens: int = field(init=False)
    cached_prompt_tokens: int = field(init=False, default=0)
    _handed: tuple[int, ...] = field(init=False, default=())
    """The token that the prefill leg sampled, on a decode leg that knows it."""

    def __post_init__(self) -> None:
        self.output_tokens = len(self.request.generated)

    @property
    def ask(self) -> Ask:
        request = self.request
        tokens = (*request.prompt, *request.generated, *self._handed)
        left, leg = self.limit - self.output_tokens, request.leg
        if leg is Leg.PREFILL:
            left, leg = 1, Leg.PREFILL if left > 1 else Leg.WHOLE
        length = len(request.prompt)
        return Ask(self.id, tokens, left, request.stop_ids, request.sampling, length, leg, request.cache_salt)

    def hand(self, token: int) -> None:
        """Go on behind the token of the prefill leg, which has sent it."""
        self._handed = (token,)
        self.output_tokens += 1

    def is_kept(self, made: Made) -> bool:
        """Tell whether a prefill leg stays, its KV cache with it, when the engine has made this of it."""
        is_prefill = self.request.leg is Leg.PREFILL
        return is_prefill and made.reason is FinishReason.LENGTH and self.output_tokens < self.limit

    def take(self, made: Made) -> TokenRun | None:
        """Count new tokens; return what to tell of them. A stop token is not sent."""
        ids = made.ids[:-1] if made.reason is FinishReason.STOP else made.ids
        if self.request.leg is not Leg.DECODE:
            self.cached_prompt_tokens = min(made.cached_tokens, len(self.request.prompt))
        if not ids:
            return None
        wanted = self.request.sampling.top_logprobs
        logprobs = tuple(TokenLogprobs(entry.chosen, entry.top[:wanted]) for entry in made.logprobs[: len(ids)])
        run = TokenRun(self.request.attempt, self.output_tokens, ids, logprobs)
        self.output_tokens += len(ids)
        return run

    def finished(self, reason: FinishReason) -> Finished:
        return Finished(self.request.attempt, reason, self.output_tokens, self.cached_prompt_tokens)
