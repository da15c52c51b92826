"""One request as the gateway holds it, across all attempts: what it asks, what has come, how it ends."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from agents.messages.component_work import PromptRows
from agents.messages.to_gateway import FinishReason, TokenLogprobs
from agents.messages.to_scheduler import Pooling, Sampling
from control.gateway.api_error import ApiError
from policies.fair_order import Account
from policies.priority import Priority
from policies.routing_table import RoutedRoute

if TYPE_CHECKING:
    from control.gateway.tasks.task_call import TaskCall


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """The part of a call that stays the same whatever happens to the instances."""

    request: str
    """The id that the client sees."""
    model: str
    prompt: tuple[int, ...]
    sampling: Sampling
    max_tokens: int
    stop_ids: tuple[int, ...]
    deadline_at_s: float
    """On the loop's clock."""
    trace: str
    """`traceparent` of the gateway's own span."""
    arrived_s: float
    """On the loop's clock."""
    account: Account = ("", "")
    """Whose it is; of an open gateway nobody's."""
    priority: Priority = Priority.STANDARD
    was_held: bool = False
    """It has waited for a model that nothing served."""
    must_obey: bool = False
    """Its client asked for rules of sampling that instances of the release before would read over."""
    cache_salt: str = ""
    """As of `Generate`."""
    task: "TaskCall | None" = None
    """Of an app: what it asks of executors beside its decoder."""
    pooling: Pooling | None = None
    """How the state of its prompt is made, where that is wanted and no tokens are."""


class News(NamedTuple):
    """Tokens that came since the last look."""

    ids: list[int]
    logprobs: list[TokenLogprobs]
    end: FinishReason | ApiError | None


class Call:
    """Written by the dispatcher on the loop, read by the one task that answers the client."""

    def __init__(self, asked: GenerationRequest) -> None:
        self.asked = asked
        self.generated: list[int] = []
        """All tokens so far: what a resumed attempt goes on behind."""
        self.is_excused = asked.was_held
        """Never refused as late, however long it has waited: see `policies.queue_parts.Waiting`."""
        self.served_by: list[tuple[str, ...]] = []
        """Instances of each attempt, in the order of its route; the latest is the last."""
        self.encoded_by: dict[int, str] = {}
        """Executor that made the rows of a part, by the part's place."""
        self.losses = 0
        """Attempts that ended without a result."""
        self.avoided: set[str] = set()
        """Instances that failed this call since it was last parked."""
        self.end: FinishReason | ApiError | None = None
        self.cached_prompt_tokens = 0
        self.state = b""
        """Of the prompt, once it is there."""
        self.route: RoutedRoute | None = None
        """Route of the latest attempt."""
        self.rows: dict[int, PromptRows] = {}
        """Where rows lie that encoders have made of its parts, and its decoder has not been sent yet."""
        self.takers = 0
        """How often the decoder that these were made for takes each."""
        self._read = 0
        self._logprobs: list[TokenLogprobs] = []
        self._waiter: asyncio.Future[None] | None = None

    @property
    def sent(self) -> int:
        """Count the tokens so far."""
        return len(self.generated)

    @property
    def given(self) -> tuple[PromptRows, ...]:
        """Rows as the decoder is sent them: in the order of the prompt, those without a place there last."""
        ends = len(self.asked.prompt)
        return tuple(sorted(self.rows.values(), key=lambda each: ends if each.position is None else each.position))

    def deliver(self, ids: list[int], logprobs: list[TokenLogprobs]) -> None:
        """Tokens in order, each once."""
        self.generated += ids
        self._logprobs += logprobs
        self._wake()

    def finish(self, end: FinishReason | ApiError) -> None:
        """The first end is the end."""
        if self.end is None:
            self.end = end
            self._wake()

    async def news(self) -> News:
        """Wait for tokens or the end. After the end there is none."""
        if self._read == len(self.generated) and self.end is None:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        ids, logprobs = self.generated[self._read :], self._logprobs
        self._read, self._logprobs = len(self.generated), []
        return News(ids, logprobs, self.end)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def who_served(calls: Sequence[Call]) -> dict[str, list[list[tuple[str, ...]]] | list[list[str]]]:
    """Instances of each attempt of calls, for their client, and, where they have pictures or sounds, the executor of
    each of these."""
    found: dict[str, list[list[tuple[str, ...]]] | list[list[str]]] = {"served_by": [call.served_by for call in calls]}
    if any(call.encoded_by for call in calls):
        found["encoded_by"] = [[name for _, name in sorted(call.encoded_by.items())] for call in calls]
    return found
