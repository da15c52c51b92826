"""The dispatcher under seeded chaos: 64 calls, instances that fail, forget, drain and start over; every token once."""

import asyncio
import random
from dataclasses import replace

import pytest

from agents.channels.address import Address
from agents.channels.keys import KeyPair
from agents.channels.settings import ChannelSettings
from agents.echo.scheduler import EchoScheduler, EchoSettings
from agents.echo.sequence import echo_token
from agents.messages.to_gateway import Failure, FinishReason
from agents.messages.to_scheduler import Sampling
from bench.text_tables import DECODE, PREFILL, WHOLE, member, text_model
from control.gateway.api_error import ApiError
from control.gateway.call import Call, GenerationRequest
from control.gateway.counts import Counts
from control.gateway.dispatcher import Dispatcher
from control.gateway.media.preprocessor import Preprocessor
from control.gateway.metrics import GatewayMetrics
from control.gateway.model_entry import ModelEntry
from control.gateway.published import Published, PublishedModel
from control.gateway.settings import GatewaySettings
from control.gateway.slack_decision import compile_decisions
from control.gateway.tokenizer_source import load_tokenizer
from policies.routing import ROUTING_POLICIES
from templates_lib.values.slo import Slo
from tests.control.gateway.world import byte_tokenizer
from tests.free_port import free_address

CHANNEL = ChannelSettings(heartbeat_s=0.05, lost_after_s=1.0, reconnect_s=0.02, reconnect_max_s=0.1, linger_s=0.02)
LEGS = {"w1": WHOLE, "w2": WHOLE, "p1": PREFILL, "p2": PREFILL, "d1": DECODE, "d2": DECODE}
RETRYABLE = [failure for failure in Failure if failure.is_retryable]


class Fleet:
    """Echo schedulers in this process, and what a hostile world does to them."""

    def __init__(self, gateway: KeyPair, seed: int) -> None:
        self._gateway = gateway
        self._random = random.Random(seed)
        self.keys = {name: KeyPair.generate() for name in LEGS}
        self.schedulers = {name: self._start(name, free_address()) for name in LEGS}
        self.actions = 0

    def _start(self, name: str, bind: str) -> EchoScheduler:
        settings = EchoSettings(max_running=6, max_waiting=3, step_s=0.001)
        return EchoScheduler(bind, self.keys[name], {self._gateway.public: "gateway"}, settings, CHANNEL)

    def strike(self) -> None:
        self.actions += 1
        name = self._random.choice(list(LEGS))
        scheduler = self.schedulers[name]
        action = self._random.randrange(3)
        if action == 0:
            scheduler.fail_next.append(self._random.choice(RETRYABLE))
        elif action == 1:
            for peer in scheduler._gateways._listener.peers:
                scheduler._gateways._listener.drop(peer, "struck")
        else:
            endpoint = scheduler.endpoint
            scheduler.close()
            self.schedulers[name] = self._start(name, endpoint)

    def close(self) -> None:
        for scheduler in self.schedulers.values():
            scheduler.close()


@pytest.mark.parametrize("policy", ROUTING_POLICIES)
@pytest.mark.parametrize("seed", range(3))
def test_every_call_gets_every_token_once_whatever_instances_do(tmp_path, seed: int, policy: str):
    async def one(dispatcher: Dispatcher, fleet: Fleet, n: int, dice: random.Random) -> None:
        prompt = tuple(dice.randrange(256) for _ in range(dice.randrange(1, 30)))
        count = dice.randrange(1, 300)
        now_s = asyncio.get_running_loop().time()
        sampling = Sampling(0.0, 1.0, 0, n)
        call = Call(GenerationRequest(f"call-{n}", "m", prompt, sampling, count, (), now_s + 600, "", now_s))
        dispatcher.start(call)
        got: list[int] = []
        while call.end is None or len(got) < len(call.generated):
            came = (await call.news()).ids
            got += came
            for _ in came:  # by tokens: how many come at once is the machine's affair
                if dice.random() < 0.02 and fleet.actions < 60:
                    fleet.strike()
            if n % 4 == 3 and len(got) > count // 2:
                dispatcher.cancel(call)
                break
        assert not isinstance(call.end, ApiError), call.end
        assert got == [echo_token(prompt, index) for index in range(len(got))]
        assert n % 4 == 3 or (len(got) == count and call.end is FinishReason.LENGTH)

    async def scenario() -> None:
        keys, metrics = KeyPair.generate(), GatewayMetrics()
        fleet = Fleet(keys, seed)
        settings = GatewaySettings(channel=CHANNEL, max_resumptions=50)
        dispatcher = Dispatcher(keys, settings, metrics, Preprocessor(()), lambda _: None, Counts.of_one())
        routed = text_model("m", [member("m", name, "z", leg) for name, leg in LEGS.items()])
        routed = replace(routed, policy=policy, objective=Slo(1000.0, 1000.0))
        served = PublishedModel(routed, "", 10_000, 0)
        addresses = {name: Address(fleet.schedulers[name].endpoint, fleet.keys[name].public) for name in LEGS}
        tokenizer = load_tokenizer(byte_tokenizer(tmp_path))
        compile_decisions()
        dispatcher.update(Published(1, addresses, (served,)), {"m": ModelEntry(served, tokenizer)})
        dice = random.Random(seed)
        try:
            await asyncio.gather(*(one(dispatcher, fleet, n, dice) for n in range(64)))
            samples = [sample for metric in metrics.resumptions.collect() for sample in metric.samples]
            resumed = sum(sample.value for sample in samples if sample.name.endswith("_total"))
            assert fleet.actions >= 20
            assert resumed >= 20
            assert dispatcher._by_call == {}
            assert list(dispatcher._parking) == []
            assert dispatcher._parking._until_s == {}
            assert all(len(queue) == 0 for queue in dispatcher._queues.by_model.values())
            assert all(link.prompts == 0 for link in dispatcher._links.values())
            assert all(attempts == {} for attempts in dispatcher._by_link.values())
            async with asyncio.timeout(120):  # the last cancels are on their way
                while any(s.status.running or s.status.waiting for s in fleet.schedulers.values()):
                    await asyncio.sleep(0)
            for scheduler in fleet.schedulers.values():
                assert scheduler.status.kv_blocks_free == scheduler.status.kv_blocks
        finally:
            dispatcher.close()
            fleet.close()

    asyncio.run(scenario())
