"""A model that is being served: its part of the table, its tokenizer, its router and what of it can be used now."""

from collections.abc import Collection

from control.gateway.prompt_encoder import PromptEncoder
from control.gateway.published import ServedModel
from control.gateway.tokenizer import Tokenizer
from policies.admission import Charge
from policies.routing import ModelRouter


class ModelEntry:
    def __init__(self, served: ServedModel, tokenizer: Tokenizer) -> None:
        self.served = served
        self.tokenizer = tokenizer
        self.encoder = PromptEncoder(tokenizer)
        self.router = ModelRouter(served.routing)
        self.unusable: frozenset[str] = frozenset(instance.id for instance in served.routing.instances)
        self.closed = self.unusable
        """What is to be sent nothing now: those, and who is full."""
        self._rates = (0.0, 0.0)
        self.take_usable(())

    @property
    def id(self) -> str:
        return self.served.routing.id

    @property
    def is_ready(self) -> bool:
        """A request can be served: each of its legs has an instance that can be used."""
        return self.router.can_choose(self.unusable)

    @property
    def is_open(self) -> bool:
        """A request can be sent to an instance for each of its legs."""
        return self.router.can_choose(self.closed)

    def update(self, served: ServedModel, tokenizer: Tokenizer) -> None:
        if tokenizer is not self.tokenizer:
            self.encoder = PromptEncoder(tokenizer)
        self.served = served
        self.tokenizer = tokenizer
        self.router.update(served.routing)

    def take_usable(self, usable: Collection[str], full: Collection[str] = ()) -> None:
        """Learn which instances can be used, and who of them is full: all that can be used count as capacity."""
        instances = self.served.routing.instances
        self.unusable = frozenset(instance.id for instance in instances if instance.id not in usable)
        self._rates = self.served.routing.tokens_per_s(self.unusable)
        self.take_full(full)

    def take_full(self, full: Collection[str]) -> None:
        own = {instance.id for instance in self.served.routing.instances}
        self.closed = self.unusable | own.intersection(full)

    def charges(self, prompt_tokens: int, max_tokens: int) -> tuple[Charge, Charge]:
        """What a request accounts: its prompt, and the answer that the plan expects."""
        output = min(float(max_tokens), self.served.mean_output_tokens)
        return (
            Charge(f"{self.id}/prompt", prompt_tokens, self._rates[0]),
            Charge(f"{self.id}/output", output, self._rates[1]),
        )
