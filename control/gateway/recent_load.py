"""What a gateway was asked for in the last seconds, and how many answers of the last minute were in time: the control
plane sees a burst by it before the minute is over that `control.gateway.meter` counts. Of each model that is asked it
keeps a number for each of `LOAD_S` seconds, and for each of `ANSWERS_S / _STEP_S` steps."""

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from agents.messages.to_demand_desk import MAX_LINES, Recent, RecentLine, RecentWork
from policies.metered_work import MeteredClass
from templates_lib.values.work import Unit

LOAD_S = 10
ANSWERS_S = 60
_STEP_S = 5
"""Of answers: they leave the minute so many seconds at once."""

App = tuple[str, str]
"""Fleet, and name of the model."""


@dataclass(slots=True)
class _Asked:
    requests: int = 0
    prompt_tokens: int = 0
    output_tokens: float = 0.0
    made: dict[Unit, float] = field(default_factory=dict)

    def add(
        self, requests: int, prompt_tokens: int, output_tokens: float, made: Iterable[Mapping[Unit, float]]
    ) -> None:
        self.requests += requests
        self.prompt_tokens += prompt_tokens
        self.output_tokens += output_tokens
        for each in made:
            add_units(self.made, each)


@dataclass(slots=True)
class _Judged:
    answers: int = 0
    in_time: int = 0


def add_units(to: dict[Unit, float], more: Mapping[Unit, float], times: float = 1.0) -> None:
    """Add so many times what is given, in place."""
    for unit, amount in more.items():
        to[unit] = to.get(unit, 0.0) + times * amount


Counted = TypeVar("Counted", _Asked, _Judged)
Steps = deque[tuple[int, dict[App, Counted]]]
"""(number of the step, what was counted in it), the oldest first; steps of which nothing is known are not there."""


class RecentLoad:
    """Time is that of a clock that never goes back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._began_s = clock, clock()
        self._asked: Steps[_Asked] = deque()
        self._judged: Steps[_Judged] = deque()

    def asked(
        self, app: App, prompt_tokens: int, output_tokens: float, made: Iterable[Mapping[Unit, float]] = ()
    ) -> None:
        """A request came that nobody has seen before. Amounts of its answer are those expected. `made`: of sound or
        pictures, that it asks for and that it brings."""
        own = _step(self._asked, int(self._clock()), LOAD_S)
        found = own.get(app)
        if found is None:
            found = own[app] = _Asked()
        found.add(1, prompt_tokens, output_tokens, made)

    def judged(self, app: App, *, is_in_time: bool) -> None:
        """An answer that has objectives ended, or will never be."""
        own = _step(self._judged, int(self._clock() // _STEP_S), ANSWERS_S // _STEP_S)
        found = own.get(app)
        if found is None:
            found = own[app] = _Judged()
        found.answers += 1
        found.in_time += is_in_time

    def report(self, classes: Mapping[App, Iterable[MeteredClass]]) -> Recent:
        """Say what came in the whole seconds before this one. `classes`: what requests are counted in, of the models
        that are served."""
        now_s = self._clock()
        until = int(now_s)
        oldest = math.floor(now_s / _STEP_S) - ANSWERS_S // _STEP_S
        asked: dict[App, _Asked] = {}
        for number, own in self._asked:
            for app, each in own.items() if until - LOAD_S <= number < until else ():
                one = asked.setdefault(app, _Asked())
                one.add(each.requests, each.prompt_tokens, each.output_tokens, (each.made,))
        judged: dict[App, _Judged] = {}
        for number, those in self._judged:
            for app, of in those.items() if number > oldest else ():
                total = judged.setdefault(app, _Judged())
                total.answers += of.answers
                total.in_time += of.in_time
        seconds = min(float(LOAD_S), max(1.0, until - self._began_s))
        apps = [app for app in classes if app in asked or app in judged][:MAX_LINES]
        lines = (_line(app, asked.get(app, _Asked()), judged.get(app, _Judged()), classes[app]) for app in apps)
        return Recent(seconds, tuple(lines))


def _step(steps: Steps[Counted], number: int, most: int) -> dict[App, Counted]:
    """The counts of the step of now; steps that no report tells any more are given up."""
    if not steps or steps[-1][0] != number:
        steps.append((number, {}))
        while steps[0][0] < number - most:
            steps.popleft()
    return steps[-1][1]


def _line(app: App, asked: _Asked, judged: _Judged, classes: Iterable[MeteredClass]) -> RecentLine:
    amounts = asked.requests, asked.prompt_tokens, asked.output_tokens, asked.made
    work = tuple(RecentWork(each.work_class, each.unit, each.units(*amounts)) for each in classes)
    return RecentLine(*app, asked.requests, work, judged.answers, judged.in_time)
