"""The real half: a shape's instances in processes of their own under their quotas, and a client that asks on time."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import psutil

from agents.channels.dialer import Dialer
from agents.messages.to_gateway import Failed, Finished, FinishReason, SchedulerState, Stats, Status, ToGateway, Tokens
from agents.messages.to_scheduler import AskStats, Generate, Leg, OtherLeg, Sampling
from bench.fidelity.recording import FORMAT, MachineUse, NodeUse, Recording, Seen
from bench.fidelity.shapes import Part, Setup
from bench.fidelity.trace import Asked, burst
from bench.local_instance import Instance, instance
from templates_lib.models.catalogue import weights_places

READY_S = 120.0
PATIENCE_S = 60.0
"""Behind the last arrival."""
WARM_UP_REQUESTS, WARM_UP_SEED = 16, 99
"""The first product of a width makes plans for it, and the first hand-off its links: neither is of the steady state."""
GREEDY = Sampling(0.0, 1.0, 0, 0)
_POLL_S = 0.5
_HEARTBEATS_S = 1.2
"""Behind which workers have said how long their engines were busy."""


def record(
    made: Setup, shape: str, parts: Sequence[Part], traces: Mapping[float, Sequence[Asked]], folder: Path
) -> tuple[Recording, ...]:
    """`traces`: load → requests; one after the other, on instances that are empty each time. `folder`: for what the
    instances write. Raises RuntimeError where an instance fails."""
    weights = weights_places()[made.served.model.id]
    with ExitStack() as held:
        instances = []
        for number, part in enumerate(parts):
            home = folder / str(number)
            home.mkdir()
            instances.append(
                held.enter_context(instance(part.placement, made.machines, made.served.model, weights, home))
            )
            _put_first(instances[-1])
        return asyncio.run(_recorded(made, shape, tuple(parts), traces, instances))


async def _recorded(
    made: Setup,
    shape: str,
    parts: tuple[Part, ...],
    traces: Mapping[float, Sequence[Asked]],
    instances: Sequence[Instance],
) -> tuple[Recording, ...]:
    client = Client(made.served.model.id, parts, instances)
    await client.wait_ready()
    await client.run(burst(made.served.shape, WARM_UP_REQUESTS, WARM_UP_SEED))
    found = []
    for load, asked in traces.items():
        before, began_at = await client.use(), datetime.now(UTC).isoformat(timespec="seconds")
        began_s, machine, own_s = asyncio.get_running_loop().time(), _machine(), time.process_time()
        seen = await client.run(asked)
        length_s = asyncio.get_running_loop().time() - began_s
        machine, own_s = _machine().since(machine), time.process_time() - own_s
        await asyncio.sleep(_HEARTBEATS_S)
        used = tuple(
            NodeUse(a.instance, a.name, a.kind, a.cpu_s - b.cpu_s, a.engine_s - b.engine_s)
            for b, a in zip(before, await client.use(), strict=True)
        )
        found.append(Recording(FORMAT, shape, load, parts, began_at, length_s, used, machine, own_s, seen))
    client.close()
    return tuple(found)


def _put_first(served: Instance) -> None:
    """Its nodes get their shares before anybody else gets time: what else runs here is not part of the run."""
    for name in served.nodes:
        held = served.cloud.confinement(name)
        for group in map(Path, held.groups if held else ()):
            for file, most in (("cpu.shares", "262144"), ("cpu.weight", "10000")):
                if (group / file).exists():
                    (group / file).write_text(most)


def _machine() -> MachineUse:
    times = psutil.cpu_times()
    return MachineUse(times.user + times.system + times.irq + times.softirq, times.nice, times.steal)


class _Link:
    """To one instance."""

    def __init__(self, number: int, served: Instance, client: "Client") -> None:
        self.served = served
        self.number = number
        self.status: Status | None = None
        self.stats: Stats | None = None
        self._client = client
        self.dialer: Dialer[ToGateway] = Dialer(served.address, served.gateway, "gateway", ToGateway, self)

    def other_leg(self, name: str) -> OtherLeg:
        assert self.status is not None
        return OtherLeg(str(self.number), str(self.status.hand_off), self.served.address.public_key, name)

    def up(self) -> None:
        """Its status says whether it takes requests."""

    def down(self, reason: str) -> None:
        self._client.fail(f"instance {self.number} is lost: {reason}")

    def received(self, message: ToGateway) -> None:
        if isinstance(message, Status):
            self.status = message
        elif isinstance(message, Stats):
            self.stats = message
        else:
            self._client.heard(message)


class Client:
    """A gateway's end of all instances of a shape. Make it on a running loop."""

    def __init__(self, model: str, parts: Sequence[Part], instances: Sequence[Instance]) -> None:
        self._model = model
        self._legs = [Leg(part.leg) for part in parts]
        self._loop = asyncio.get_running_loop()
        self._links = [_Link(number, served, self) for number, served in enumerate(instances)]
        self._attempts = 0
        self._token_s: dict[int, list[float]] = {}
        self._open = 0
        self._failure = ""

    async def wait_ready(self) -> None:
        await self._until(
            lambda: all(link.status and link.status.state is SchedulerState.READY for link in self._links), READY_S
        )

    async def run(self, asked: Sequence[Asked]) -> tuple[Seen, ...]:
        """Each at its time, whatever becomes of the others; returns when all have ended."""
        attempts = range(self._attempts, self._attempts + len(asked))
        self._attempts += len(asked)
        self._open += len(asked)
        began_s = self._loop.time() + 0.05
        for attempt, one in zip(attempts, asked, strict=True):
            self._token_s[attempt] = []
            self._loop.call_at(began_s + one.arrival_s, self._send, attempt, one)
        await self._until(lambda: not self._open, max(one.arrival_s for one in asked) + PATIENCE_S)
        return tuple(
            Seen(one.arrival_s, one.prompt_tokens, one.output_tokens,
                 tuple(round(at - began_s, 5) for at in self._token_s[attempt]))
            for attempt, one in zip(attempts, asked, strict=True)
        )  # fmt: skip

    async def use(self) -> tuple[NodeUse, ...]:
        """So far."""
        for link in self._links:
            link.stats = None
            link.dialer.send(AskStats())
        await self._until(lambda: all(link.stats for link in self._links), PATIENCE_S)
        found = []
        for link in self._links:
            busy = {node.node: node.busy_s for node in link.stats.done.nodes} if link.stats else {}
            found += [
                NodeUse(link.number, name, link.served.nodes[name], cpu_s, busy[name])
                for name, cpu_s in link.served.cpu_s().items()
            ]
        return tuple(found)

    def heard(self, message: ToGateway) -> None:
        at = self._loop.time()
        if isinstance(message, Tokens):
            for run in message.runs:
                self._token_s[run.attempt] += [at] * len(run.ids)
        elif isinstance(message, Finished):
            self._open -= message.reason is not FinishReason.HANDED_OFF
        elif isinstance(message, Failed):
            self.fail(f"request {message.attempt}: {message.failure}: {message.reason}")

    def fail(self, reason: str) -> None:
        self._failure = self._failure or reason

    def close(self) -> None:
        for link in self._links:
            link.dialer.close()

    def _send(self, attempt: int, one: Asked) -> None:
        prompt = tuple(1000 + (attempt * 37 + i) % 5000 for i in range(one.prompt_tokens))
        for n, (link, leg) in enumerate(zip(self._links, self._legs, strict=True)):
            peer = None if leg is Leg.WHOLE else self._links[1 - n].other_leg(f"{attempt}")
            link.dialer.send(
                Generate(attempt, "r", self._model, prompt, (), one.output_tokens, (), GREEDY, 3600.0, leg, peer)
            )

    async def _until(self, condition: Callable[[], bool], patience_s: float) -> None:
        give_up_s = self._loop.time() + patience_s
        while not condition():
            for link in self._links:
                link.served.check()
            if self._failure or self._loop.time() > give_up_s:
                raise RuntimeError(self._failure or f"{self._open} requests had not ended after {patience_s:g} s")
            await asyncio.sleep(_POLL_S)
