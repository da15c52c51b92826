"""A model that is being served: its part of the table, its tokenizer, its router and what of it can be used now."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from control.gateway.api_error import bad_request
from control.gateway.leg_parts import leg_parts
from control.gateway.media.reading import reading_of
from control.gateway.prompt_encoder import PromptEncoder
from control.gateway.published import PublishedModel
from control.gateway.tokenizer import Tokenizer
from policies.admission import Charge, WorkRule, work_rules
from policies.fair_order import Account
from policies.routing import BY_LOAD, BY_SLACK, router_of
from templates_lib.values.work import Unit

BY_SIZE = (Unit.IMAGE_TOKEN, Unit.AUDIO_TOKEN, Unit.AUDIO_SECOND, Unit.DENOISING_STEP)
"""Units of which requests are charged as many as they take."""
_NO_MEDIA: Mapping[Unit, float] = {}


class ModelEntry:
    def __init__(self, served: PublishedModel, tokenizer: Tokenizer | None) -> None:
        """`tokenizer`: None for what makes sound or pictures, and reads no tokens."""
        self._tokenizer: Tokenizer | None = None
        self._encoder: PromptEncoder | None = None
        self._take(served, tokenizer)
        self.router = router_of(served.routing)
        self.unusable: frozenset[str] = frozenset(member.id for member in served.routing.members)
        self.closed = self.unusable
        """Members that are to be sent nothing now: those, and who is full."""
        self._rules: tuple[WorkRule, ...] = ()
        self.take_usable(())

    @property
    def id(self) -> str:
        return self.served.routing.id

    @property
    def is_by_slack(self) -> bool:
        """Its calls wait in a `SlackQueue`."""
        return self.served.routing.policy == BY_SLACK

    @property
    def is_by_load(self) -> bool:
        """Its members are chosen by what waits at them (`control.gateway.pools`)."""
        return self.served.routing.policy == BY_LOAD

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Tokens that end an answer: those of its tokenizer's files, or, where these name none, of its config."""
        return self.tokenizer.stop_ids or (() if self.reading is None else self.reading.stop_ids)

    @property
    def is_ready(self) -> bool:
        """A request can be served: each leg of a route has a member that can be used."""
        return self.router.can_choose(self.unusable)

    @property
    def is_open(self) -> bool:
        """A request can be sent to a member for each leg of a route."""
        return self.router.can_choose(self.closed)

    @property
    def tokenizer(self) -> Tokenizer:
        """Raises ApiError for a model that has none."""
        if self._tokenizer is None:
            raise bad_request(f"`{self.id}` reads and writes no tokens", "model")
        return self._tokenizer

    @property
    def encoder(self) -> PromptEncoder:
        """Raises ApiError for a model that has none."""
        if self._encoder is None:
            self._encoder = PromptEncoder(self.tokenizer)
        return self._encoder

    def update(self, served: PublishedModel, tokenizer: Tokenizer | None) -> None:
        self.router = router_of(served.routing, self.router)
        self._take(served, tokenizer)

    def _take(self, served: PublishedModel, tokenizer: Tokenizer | None) -> None:
        self.served = served
        if tokenizer is not self._tokenizer:
            self._tokenizer, self._encoder = tokenizer, None
        self.reading = None if served.media is None else reading_of(served.media)
        """What it takes beside text; None: nothing."""
        self.parts = {route.id: leg_parts(route) for route in served.routing.routes}
        """Tasks of the legs of each route, by the route's id."""
        self.token_classes = frozenset(
            part.work_class for parts in self.parts.values() for part in parts if part.makes_tokens
        )
        """Work classes of the legs that choose tokens."""
        self._encoding = {
            leg.work_class: (leg.unit, leg.units_per_request)
            for route in served.routing.routes
            for leg in route.legs
            if leg.unit in BY_SIZE
        }
        """Unit of each class that encodes or generates, and what a mean request takes of it."""

    def take_usable(self, usable: Collection[str], full: Collection[str] = ()) -> None:
        """Learn which members can be used, and who of them is full: all that can be used count as capacity."""
        routing = self.served.routing
        self.unusable = frozenset(member.id for member in routing.members if member.id not in usable)
        self._rules = tuple(work_rules(routing.rates(self.unusable)).values())
        self.take_full(full)

    def take_full(self, full: Collection[str]) -> None:
        own = {member.id for member in self.served.routing.members}
        self.closed = self.unusable | own.intersection(full)

    def charges(
        self, prompt_tokens: int, max_tokens: int, account: Account, media: Mapping[Unit, float] = _NO_MEDIA
    ) -> tuple[Charge, ...]:
        """Charges for a request: its prompt, the answer that the plan expects, and what encoders have of it. `media`:
        rows of its pictures and sounds, or what is made for it, by unit."""
        output_tokens = min(float(max_tokens), self.served.mean_output_tokens)
        found = (rule.charge(prompt_tokens, output_tokens, account) for rule in self._rules)
        return tuple(self._by_size(charge, media) for charge in found)

    def _by_size(self, charge: Charge, media: Mapping[Unit, float]) -> Charge:
        """What a mean request is charged of a class that encodes or generates, by how much larger this one is."""
        unit, mean = self._encoding.get(charge.work, (None, 1.0))
        return charge if unit is None or unit not in media else replace(charge, units=charge.units * media[unit] / mean)

    def work_name(self, work_class: str) -> str:
        """Name of what a class counts, for people: `prompt tokens`."""
        legs = (leg for route in self.served.routing.routes for leg in route.legs)
        return next(leg.unit.plural for leg in legs if leg.work_class == work_class)
