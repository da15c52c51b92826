"""Echo schedulers in the test's own process, and dispatchers before them."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from agents.channels.address import Address
from agents.channels.keys import KeyPair
from agents.channels.settings import ChannelSettings
from agents.echo.scheduler import EchoScheduler, EchoSettings
from agents.messages.to_scheduler import Sampling
from bench.text_tables import WHOLE, member, text_model
from control.gateway.call import Call, GenerationRequest
from control.gateway.counts import Counts
from control.gateway.dispatcher import Dispatcher
from control.gateway.media.preprocessor import Preprocessor
from control.gateway.metrics import GatewayMetrics
from control.gateway.model_entry import ModelEntry
from control.gateway.published import Published, PublishedModel
from control.gateway.settings import GatewaySettings
from control.gateway.slack_decision import compile_decisions
from control.gateway.tokenizer import Tokenizer
from control.gateway.tokenizer_source import load_tokenizer
from policies.fair_order import Account
from policies.priority import Priority
from policies.routing_table import PromptTimes, RoutedInstance, RoutedModel
from policies.slack import PROMPT_POINTS
from tests.control.gateway.world import byte_tokenizer
from tests.free_port import free_address

CHANNEL = ChannelSettings(heartbeat_s=0.05, lost_after_s=2.0, reconnect_s=0.02, reconnect_max_s=0.1, linger_s=0.02)


def takes(seconds: float) -> PromptTimes:
    """Times of a member that takes as long for every prompt."""
    return PromptTimes((seconds,) * len(PROMPT_POINTS), (seconds,) * len(PROMPT_POINTS), 0)


def whole(name: str, seconds: float, usd_per_hour: float = 1.0, model: str = "m") -> RoutedInstance:
    return replace(member(model, name, "z", WHOLE), times=takes(seconds), usd_per_hour=usd_per_hour)


@dataclass
class EchoFleet:
    scheduler: ClassVar[type[EchoScheduler]] = EchoScheduler
    folder: Path
    settings: Mapping[str, EchoSettings]
    keys: KeyPair = field(default_factory=KeyPair.generate)
    schedulers: dict[str, EchoScheduler] = field(default_factory=dict)
    dispatchers: list[Dispatcher] = field(default_factory=list)
    tokenizer: Tokenizer = field(init=False)
    allowed: dict[str, str] = field(init=False)
    """Gateways that all schedulers let in, as it is now: public key → name."""
    _own: dict[str, KeyPair] = field(default_factory=dict)
    _calls: int = 0

    def __post_init__(self) -> None:
        self.allowed = {self.keys.public: "gateway"}
        # Once: gateways may publish from several threads, and none may read a file that another writes.
        self.tokenizer = load_tokenizer(byte_tokenizer(self.folder))

    def start(self, name: str) -> None:
        """Start it, again at its address."""
        own = self._own.setdefault(name, KeyPair.generate())
        bind = self.schedulers[name].endpoint if name in self.schedulers else free_address()
        self.schedulers[name] = self.scheduler(bind, own, self.allowed, self.settings[name], CHANNEL)

    def dispatcher(self, **settings: float) -> Dispatcher:
        own = replace(GatewaySettings(channel=CHANNEL), **settings)
        made = Dispatcher(self.keys, own, GatewayMetrics(), Preprocessor(()), lambda _: None, Counts.of_one())
        self.dispatchers.append(made)
        return made

    def publish(self, dispatcher: Dispatcher, *models: RoutedModel) -> None:
        compile_decisions()  # as whoever keeps a table does
        served = [PublishedModel(model, "", 10_000, 0) for model in models]
        addresses = {
            name: Address(scheduler.endpoint, self._own[name].public) for name, scheduler in self.schedulers.items()
        }
        entries = {}
        for each in served:
            entry = dispatcher.models.get(each.routing.id) or ModelEntry(each, self.tokenizer)
            entry.update(each, self.tokenizer)
            entries[each.routing.id] = entry
        dispatcher.update(Published(1, addresses, tuple(served)), entries)

    def call(
        self,
        tokens: int,
        model: str = "m",
        prompt: int = 4,
        account: Account = ("", ""),
        priority: Priority = Priority.STANDARD,
    ) -> Call:
        """A call that arrives now. Prompts differ, so that answers show whose they are."""
        self._calls += 1
        now_s = asyncio.get_running_loop().time()
        ids = tuple((self._calls * 7 + n) % 251 for n in range(prompt))
        sampling = Sampling(0.0, 1.0, 0, 0)
        name = f"call-{self._calls}"
        asked = GenerationRequest(name, model, ids, sampling, tokens, (), now_s + 600, "", now_s, account, priority)
        return Call(asked)

    async def usable(self, dispatcher: Dispatcher, *names: str) -> None:
        async with asyncio.timeout(60):
            while not all(dispatcher._links[name].is_usable for name in names or self.schedulers):
                await asyncio.sleep(0.001)

    def close(self) -> None:
        for each in (*self.dispatchers, *self.schedulers.values()):
            each.close()


def slack_model(*members: RoutedInstance, model: str = "m", **changes: object) -> RoutedModel:
    return replace(text_model(model, members), policy="slack-v1", **changes)  # type: ignore[arg-type]


@contextmanager
def echo_fleet(folder: Path, kind: type[EchoFleet] = EchoFleet, **settings: EchoSettings) -> Iterator[EchoFleet]:
    """One scheduler for each of the settings, which are closed again with all dispatchers."""
    fleet = kind(folder, settings)
    try:
        for name in settings:
            fleet.start(name)
        yield fleet
    finally:
        fleet.close()


async def first_token_s(call: Call) -> float:
    """Time from a call's arrival to its first token."""
    while not (await call.news()).ids:
        assert call.end is None, call.end
    return asyncio.get_running_loop().time() - call.asked.arrived_s


async def ended(call: Call) -> Call:
    while call.end is None:
        await call.news()
    return call
