"""An answer is handed over behind any of its first tokens: it goes on as one engine alone would make it, whatever else
is cancelled or killed meanwhile."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
import torch

from agents.channels.keys import KeyPair
from agents.messages.to_gateway import FinishReason, SchedulerState, Status
from agents.messages.to_scheduler import AskStatus, Cancel, Generate, Leg, OtherLeg, Sampling
from agents.weights.source import open_checkpoint
from templates_lib.values.speculation import Speculation
from tests.agents.engines.pipelines import Pipeline
from tests.agents.engines.tiny_models import LAYERS, prompt_of, save_model
from tests.agents.stage.instances import PATIENCE_S, Gateway, Instance
from tests.agents.stage.questions import KINDS, expected

POSITIONS = range(1, 17)
"""Tokens of the answer that are made when it is handed over."""
LENGTH = 24
CUTS = {
    "prefill": ((4, 2), ((1.0,), (0.6, 0.4))),
    "decode": ((1, 3, 2), ((1.0,), (1.0,), (1.0,))),
    "other": ((6,), ((1.0,),)),
}
GREEDY, _, _, WARM = KINDS


@dataclass
class World:
    """Three instances, and a gateway's end to each."""

    instances: dict[str, Instance]
    gateways: dict[str, Gateway]
    attempts: "count[int]"

    async def status(self, name: str) -> Status:
        gateway = self.gateways[name]
        before = len(gateway.of(Status))
        gateway.send(AskStatus())
        await gateway.until(lambda: len(gateway.of(Status)) > before)
        return gateway.status()

    async def begin(self, prompt: list[int], made: list[int], sampling: Sampling, decode: str) -> int:
        """Have the prefill instance make one token more than `made`, and the other one what is behind that."""
        attempt = next(self.attempts)
        others = {}
        for name in ("prefill", decode):
            endpoint = (await self.status(name)).hand_off
            assert endpoint is not None
            key = self.instances[name].addresses["public_key"]
            others[name] = OtherLeg(name, endpoint, key, f"hand-off {attempt}")
        for name, leg, other in (("prefill", Leg.PREFILL, decode), (decode, Leg.DECODE, "prefill")):
            what = (str(attempt), "tiny", tuple(prompt), tuple(made), LENGTH, (), sampling, 600.0, leg, others[other])
            self.gateways[name].send(Generate(attempt, *what))
        return attempt

    def tokens(self, attempt: int, decode: str) -> list[int]:
        return [*self.gateways["prefill"].tokens(attempt), *self.gateways[decode].tokens(attempt)]

    async def end(self, attempt: int, decode: str) -> list[int]:
        gateway = self.gateways[decode]
        await gateway.until(lambda: attempt in gateway.ends())
        assert getattr(gateway.ends()[attempt], "reason", None) is FinishReason.LENGTH
        return self.tokens(attempt, decode)

    async def until_idle(self, *names: str) -> None:
        """Nothing runs or waits there, and no KV block is held."""
        async with asyncio.timeout(PATIENCE_S):
            while not all([_is_idle(await self.status(name)) for name in names]):
                pass


def _is_idle(status: Status) -> bool:
    return (status.running, status.waiting, status.kv_blocks_free) == (0, 0, status.kv_blocks)


@asynccontextmanager
async def world_of(folder: Path, weights: Path) -> AsyncIterator[World]:
    with ExitStack() as processes:
        keys, instances = KeyPair.generate(), {}
        for name, cut in CUTS.items():
            (folder / name).mkdir()
            made = Instance(folder / name, weights, *cut, gateway=keys, kv_blocks=64, speculation=Speculation(1, 4))
            instances[name] = processes.enter_context(made)
        async with AsyncExitStack() as channels:
            gateways = {n: await channels.enter_async_context(Gateway(each)) for n, each in instances.items()}
            world = World(instances, gateways, count())
            for name in CUTS:
                while (await world.status(name)).state is not SchedulerState.READY:
                    await gateways[name].until(lambda: gateways[name].status().state is SchedulerState.READY)  # noqa: B023
            yield world


@pytest.mark.slow
def test_handed_over_at_every_position_amid_cancels_and_a_kill_every_token_is_that_of_one_engine(
    tmp_path: Path,
) -> None:
    torch.set_num_threads(1)
    weights = tmp_path / "weights"
    weights.mkdir()
    save_model("gpt-oss", weights)
    whole = Pipeline.load(open_checkpoint(weights), [LAYERS])
    prompts = {at: prompt_of(5 + 9 * (at % 7), at) for at in POSITIONS}
    # Before there are channels: whoever computes for seconds amid them is given up as silent.
    greedy, warm = (
        {at: expected(whole, prompt, LENGTH, sampling) for at, prompt in prompts.items()} for sampling in (GREEDY, WARM)
    )

    async def main() -> None:
        async with world_of(tmp_path, weights) as world:
            await _all_positions(world, prompts, greedy, GREEDY)
            await _all_positions(world, prompts, warm, WARM)
            await _killed(world, prompts, warm)
            await world.until_idle("prefill", "other")

    asyncio.run(main())


async def _all_positions(
    world: World, prompts: dict[int, list[int]], answers: dict[int, list[int]], sampling: Sampling
) -> None:
    """Beside each answer one that is cancelled as soon as its first token comes, while it is being handed over."""
    running = {}
    for at, prompt in prompts.items():
        made = answers[at][: at - 1]
        running[at] = await world.begin(prompt, made, sampling, "decode")
        cancelled = await world.begin(prompt, made, sampling, "decode")
        await world.gateways["prefill"].until(lambda: world.gateways["prefill"].tokens(cancelled))  # noqa: B023
        for name in ("prefill", "decode"):
            world.gateways[name].send(Cancel(cancelled))
        assert world.gateways["prefill"].tokens(cancelled) == answers[at][at - 1 : at]
    for at, attempt in running.items():
        assert await world.end(attempt, "decode") == answers[at][at - 1 :], f"handed over behind token {at}"
        assert world.gateways["prefill"].tokens(attempt) == answers[at][at - 1 : at]
    await world.until_idle("prefill", "decode")


async def _killed(world: World, prompts: dict[int, list[int]], answers: dict[int, list[int]]) -> None:
    """The decode instance is killed amid hand-offs, and the answers go on elsewhere behind the tokens that came."""
    worker = world.instances["decode"].workers["1.0"]
    worker.send_signal(signal.SIGSTOP)
    broken = {at: await world.begin(prompt, answers[at][: at - 1], WARM, "decode") for at, prompt in prompts.items()}
    prefill, decode = world.gateways["prefill"], world.gateways["decode"]
    await prefill.until(lambda: all(prefill.tokens(attempt) for attempt in broken.values()))
    worker.kill()
    await decode.until(lambda: decode.ends().keys() >= set(broken.values()) or decode.seen.downs)
    again = {}
    for at, attempt in broken.items():
        prefill.send(Cancel(attempt))
        came = [*answers[at][: at - 1], *world.tokens(attempt, "decode")]
        assert came == answers[at][: len(came)]
        again[at] = came, await world.begin(prompts[at], came, WARM, "other")
    for at, (came, attempt) in again.items():
        assert [*came, *await world.end(attempt, "other")] == answers[at], f"killed behind token {at}"
