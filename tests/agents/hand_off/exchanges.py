"""Stage workers' ends of a hand-off in one process: the links, threads and engines are real, the orders the test's."""

import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import torch

from agents.engines.guarded_engine import GuardedEngine
from agents.engines.sampling import GREEDY, Sampling
from agents.hand_off.kv_exchange import KvExchange
from agents.hand_off.settings import HandOffSettings
from agents.messages.to_stage import CloseKvLink, OpenKvLink, SendKv
from agents.messages.to_stage_scheduler import KvArrived, KvLinkBroken
from agents.transfer.rendezvous import Rendezvous
from agents.weights.source import open_checkpoint
from tests.agents.engines.pipelines import Pipeline, Running

SMALL = HandOffSettings(chunk_bytes=3000, stall_s=20.0)
"""Many chunks, of a block and more, of a tiny model."""


class HandOver:
    """`source` and `target`: layers of their stages."""

    def __init__(
        self,
        checkpoint: Path,
        source: tuple[int, ...],
        target: tuple[int, ...],
        settings: HandOffSettings = SMALL,
        dtypes: tuple[torch.dtype, torch.dtype] = (torch.float32, torch.float32),
    ) -> None:
        opened = open_checkpoint(checkpoint)
        self.source, self.target = (
            Pipeline([GuardedEngine(stage) for stage in Pipeline.load(opened, cut, 64, dtype).stages])
            for cut, dtype in zip((source, target), dtypes, strict=True)
        )
        self.dtype = dtypes[0]
        self.arrived: dict[int, list[int]] = {}
        """Run → bytes that came, at each of its nodes."""
        self.broken: list[KvLinkBroken] = []
        self._changed = threading.Condition()
        self._rendezvous = Rendezvous("127.0.0.1")
        self.senders = [KvExchange(stage, settings, self._report) for stage in self.source.stages]
        self.receivers = [KvExchange(stage, settings, self._report) for stage in self.target.stages]
        self.links = {
            f"L{s}-{t}": (s, t, max(a.first_layer, b.first_layer), min(a.end, b.end))
            for s, a in enumerate(stage.facts.held for stage in self.source.stages)
            for t, b in enumerate(stage.facts.held for stage in self.target.stages)
            if max(a.first_layer, b.first_layer) < min(a.end, b.end)
        }

    def __enter__(self) -> "HandOver":
        return self

    def __exit__(self, *_: object) -> None:
        for name, (s, t, *_layers) in self.links.items():
            self.senders[s].obey(CloseKvLink(name))
            self.receivers[t].obey(CloseKvLink(name))
        self._rendezvous.close()

    def prefill(self, run: int, prompt: list[int], sampling: Sampling = GREEDY) -> Running:
        running = Running(str(run), tuple(prompt), sampling=sampling)
        while not running.tokens:
            (running,) = self.source.step([running], 16)
        return running

    def reserve(self, run: int, tokens: int) -> None:
        for receiver in self.receivers:
            receiver.inbox.reserve(run, tokens)

    def open(self, epoch: int = 1, secret: str = "") -> None:
        for name, (s, t, *_layers) in self.links.items():
            at = (self._rendezvous.host, self._rendezvous.port, str(self.dtype), secret)
            self.receivers[t].obey(OpenKvLink(name, epoch, False, *at))
            self.senders[s].obey(OpenKvLink(name, epoch, True, *at))

    def send(self, run: int, target_run: int, tokens: int) -> None:
        for name, (s, _t, first, end) in self.links.items():
            self.senders[s].obey(SendKv(name, run, target_run, tokens, first, end - first))

    def wait(self, condition: Callable[[], object]) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, 120)

    def open_until_arrived(self, run: int, epoch: int) -> None:
        """Opens links anew from `epoch` on whenever one breaks, as the schedulers would."""
        while not self.has_arrived(run):
            broken = len(self.broken)
            self.open(epoch)
            self.wait(lambda: self.has_arrived(run) or len(self.broken) > broken)  # noqa: B023
            epoch += 1

    def has_arrived(self, run: int) -> bool:
        return len(self.arrived.get(run, ())) == len(self.receivers)

    def decode(self, run: int, prefilled: Running, tokens: int) -> list[int]:
        running = Running(str(run), prefilled.pending, prefilled.position, prefilled.tokens, prefilled.sampling)
        while len(running.tokens) < tokens:
            (running,) = self.target.step([running], 16)
        return list(running.tokens)

    def kv_bytes(self, tokens: int) -> int:
        """Of all layers, as far as they keep it."""
        return sum(
            2 * (tokens - stage.first_kept_token(layer, tokens)) * facts.kv_heads * facts.head_dim * self.dtype.itemsize
            for stage in self.source.stages
            for facts in (stage.facts,)
            for layer in range(facts.held.first_layer, facts.held.end)
        )

    def _report(self, message: msgspec.Struct) -> None:
        with self._changed:
            if isinstance(message, KvArrived):
                self.arrived.setdefault(message.run, []).append(message.moved_bytes)
            elif isinstance(message, KvLinkBroken):
                self.broken.append(message)
            self._changed.notify_all()
