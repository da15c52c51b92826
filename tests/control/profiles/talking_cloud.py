"""A cloud in memory whose nodes print what nodes do that measure themselves, in a time that passes when one waits."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Event

import msgspec

from agents.messages.to_hub import GpuReport
from agents.messages.to_profiler import Done, Machine, Measured, ToProfiler, line
from agents.profile.points import sweeps
from control.cloud.errors import RetryLaterError
from control.cloud.node import CloudNode, NodeRequest
from control.profiles.rented_nodes import Pace
from templates_lib.cost.hand_off_cost import HandOffCost
from templates_lib.cost.pipeline_cost import PipelineCost
from templates_lib.values.pair_cost import HopTime, PairCost
from templates_lib.values.profile_row import Header, ProfileBlock, ProfileRow
from tests.control.cloud.fake_cloud import FakeCloud
from tests.control.lifecycle.worlds import START

L40S = GpuReport("NVIDIA L40S", 46068)
PIPELINE = PipelineCost(1e-4, 1e-8, 1e-7, 5e-4, 2e-5, 0.01)
HAND_OFF = HandOffCost(1e-10, 2e-10)
PAIR = PairCost((HopTime(1, 2e-5), HopTime(64, 6e-5), HopTime(2048, 1e-3)), "NCCL", 3e9)
STEP_S, LAYER_S, ROW_S = 1e-3, 2e-4, 1e-6
"""Of a step, and of each of its layers, and of each row in each of them."""
LAYERS, LAYER_BYTES = 64, 900 << 20
"""Of a Qwen3 32B."""


def machine(device: str = "cuda", gpus: tuple[GpuReport, ...] = (L40S,), release: str = "0") -> Machine:
    return Machine(device, gpus, "580.95.05", "EPYC", 8.0, (f"medley-serving {release}", "torch 2.13.0"))


def measured(*, pair: bool = False) -> Iterator[ToProfiler]:
    """All parts of a node: each step takes what its layers and rows do."""
    blocks = []
    for sweep in sweeps(LAYERS, 8192, LAYER_BYTES, "cuda"):
        for point in sweep.points:
            held, prompt = sweep.held, point.prompts * point.prompt_tokens
            seconds = STEP_S + held.layers * (LAYER_S + ROW_S * (prompt + point.requests))
            context = point.prompt_before + (point.prompt_tokens - 1) / 2 if prompt else 0.0
            of_step = (prompt, context, point.requests, float(point.context), seconds, point.held_out)
            blocks.append(ProfileBlock(ProfileRow(held.layers, held.first, held.last, *of_step), seconds))
    yield from _part("engine", *blocks, HAND_OFF)
    yield from _part("pipeline", PIPELINE)
    if pair:
        yield from _part("pair", PAIR)


def _part(part: str, *lines: object) -> Iterator[Measured]:
    for each in (Header(len(lines)), *lines):
        yield Measured(part, msgspec.Raw(msgspec.json.encode(each)))


def whole(*said: ToProfiler) -> list[ToProfiler]:
    return [*said, Done(len(said))]


def story(release: str = "0") -> list[ToProfiler]:
    """Of a node that measures itself to the end."""
    return whole(machine(release=release), *measured())


class TalkingCloud(FakeCloud):
    """Of the instance type `g6e.xlarge`; `says`: what its nodes print, in the order in which they are asked for, of
    which so many lines more are there each time that a log is read."""

    def __init__(self, says: list[list[ToProfiler]], stock: int = 2, at_once: int = 15) -> None:
        super().__init__("aws", {"g6e.xlarge": stock})
        self._says = says
        self._at_once = at_once
        self._read: dict[str, int] = {}
        self.hangs = False
        """Whether calls that create take until somebody ends the node."""
        self.given_up = Event()

    def create(self, request: NodeRequest, now: datetime) -> CloudNode:
        if self.hangs:
            self.given_up.wait(120)
            raise RetryLaterError("aws: the launch was given up", 1.0)
        return super().create(request, now)

    def terminate(self, name: str, now: datetime) -> None:
        super().terminate(name, now)
        self.given_up.set()

    def printed(self, name: str, lines: int) -> str:
        said = self._says[[call.subject for call in self.calls if call.method == "create"].index(name)]
        self._read[name] = self._read.get(name, 0) + self._at_once
        texts = [f"(medley-node, pid=7) {line(each)}" for each in said[: self._read[name]]]
        return "\n".join(["Collecting torch", *texts][-lines:])


@dataclass
class Course:
    """Time that passes when one waits. `then`: what happens at each wait, by how often one has waited."""

    then: Callable[[int], None] = lambda _: None
    hangs: Callable[[], bool] = lambda: False
    """Whether an answer that is waited for does not come."""
    waits: int = 0
    passed: timedelta = timedelta()

    @property
    def pace(self) -> Pace:
        return Pace(lambda: self.now, self._wait, self._until_done)

    @property
    def now(self) -> datetime:
        return START + self.passed

    def _wait(self, seconds: float) -> None:
        self.waits += 1
        self.passed += timedelta(seconds=seconds)
        self.then(self.waits)

    def _until_done(self, answer: Future[CloudNode], seconds: float) -> None:
        if self.hangs():
            self.passed += timedelta(seconds=seconds)
        else:
            wait([answer], 120)
