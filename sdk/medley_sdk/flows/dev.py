"""A workflow in one process, with its services: `python -m medley_sdk.flows.dev FILE.py`, which is what `medley dev`
starts. Nothing is journaled, and nothing is kept from the code: it may be stepped through with a debugger.
"""

import argparse
import os
import sys
import time
import urllib.error
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from medley_sdk.errors import TaskError
from medley_sdk.flows.app import App, load_app
from medley_sdk.flows.batch import Given, computed
from medley_sdk.flows.chat import NO_GATEWAY, NOT_THERE, asked, chat_body, gateway_url, refusal, reply_of
from medley_sdk.flows.messages import Broke, CallKind, Deliver, Effects, Failure, FlowCall, Step
from medley_sdk.flows.run import FlowRun
from medley_sdk.packing import filled, unpacked

KEY_VARIABLE = "MEDLEY_API_KEY"
_MODEL_S = 600.0
_SIGNAL_S = 60.0
"""Longest wait for the end of the time of a signal that nobody gave."""
_NULL = msgspec.msgpack.encode(None)


class DevRun:
    """Does what a run calls, as soon as it waits: the calls of a service that are known then are a batch."""

    def __init__(self, app: App, run_id: str, gateway: str, signals: Mapping[str, Sequence[Any]]) -> None:
        self._app, self._id, self._gateway = app, run_id, gateway
        self._signals = {name: list(values) for name, values in signals.items()}
        self._open: list[tuple[FlowCall, float]] = []
        """With when they were made, by the monotonic clock."""
        self._came: dict[str, Deliver] = {}
        self._delivered: set[str] = set()
        self._loaded: dict[str, Any] = {}

    def exchange(self, step: Step) -> Deliver:
        """Raises TaskError where the run waits for a signal that nobody gave."""
        self.add(step.calls)
        while True:
            for path, came in self._came.items():  # in the order in which they came
                if path in step.awaits and path not in self._delivered:
                    self._delivered.add(path)
                    return came
            if not self._compute():
                self._wait()

    def add(self, calls: Sequence[FlowCall]) -> None:
        self._open += [(call, time.monotonic()) for call in calls]

    def finish(self, gives: Sequence[str]) -> list[bytes]:
        """Compute what is left, and return the values of these calls. Raises TaskError where one failed."""
        while self._compute():
            pass
        for path in gives:
            if (failure := self._came[path].failure) is not None:
                raise TaskError(failure.reason)
        return [self._came[path].value for path in gives]

    def _compute(self) -> bool:
        """Compute the calls whose inputs are there; tell whether there were any."""
        ready = [call for call, _ in self._open if all(path in self._came for path in call.takes)]
        work = [call for call in ready if call.kind not in (CallKind.SLEEP, CallKind.SIGNAL)]
        signals = [call for call in ready if call.kind is CallKind.SIGNAL and self._signals.get(call.target)]
        for call in signals:
            self._settle(call, msgspec.msgpack.encode(self._signals[call.target].pop(0)))
        if work:
            same = [call for call in work if (call.kind, call.target) == (work[0].kind, work[0].target)]
            self._do(work[0].kind, same)
        return bool(work or signals)

    def _do(self, kind: CallKind, calls: list[FlowCall]) -> None:
        failed = {call.path: failure for call in calls if (failure := self._failed_input(call)) is not None}
        given = {call.path: self._given(call) for call in calls if call.path not in failed}
        for call in calls:
            if call.path in failed:
                self._settle(call, failure=failed[call.path])
            elif kind is CallKind.EMIT:
                print(f"emit: {_shown(unpacked(given[call.path], ())[0][0])}", file=sys.stderr, flush=True)
                self._settle(call, _NULL)
            elif kind is CallKind.MODEL:
                self._ask(call, given[call.path])
        if kind is CallKind.SERVICE:
            self._serve([call for call in calls if call.path not in failed], given)

    def _serve(self, calls: list[FlowCall], given: Mapping[str, bytes]) -> None:
        service = self._app.services[calls[0].target]
        name, most = service.info.name, service.info.max_batch
        if name not in self._loaded:
            self._loaded[name] = service.made_of()
        for first in range(0, len(calls), most):
            part = calls[first : first + most]
            items = [Given(f"{self._id}/{call.path}", given[call.path]) for call in part]
            for call, outcome in zip(part, computed(service, self._loaded[name], items), strict=True):
                may_again = call.effects is Effects.NONE or call.idempotent
                kind = "uncertain" if outcome.begun and not may_again else "call"
                failure = Failure(kind, f"service {name}: {outcome.failure}") if outcome.failure else None
                self._settle(call, outcome.value, failure)

    def _ask(self, call: FlowCall, given: bytes) -> None:
        key = os.environ.get(KEY_VARIABLE, "")
        try:
            if not self._gateway:
                raise ValueError("no gateway is known: name one with --gateway URL")
            url, most_s = f"{self._gateway}/v1/chat/completions", call.timeout_s or _MODEL_S
            answer = reply_of(asked(url, key, chat_body(call.target, given), {}, most_s))
        except urllib.error.HTTPError as error:
            self._settle(call, failure=Failure("call", f"model {call.target}: {refusal(error)}"))
        except (*NOT_THERE, *NO_GATEWAY) as error:
            self._settle(call, failure=Failure("call", f"model {call.target}: {error}"))
        else:
            self._settle(call, msgspec.msgpack.encode(answer))

    def _wait(self) -> None:
        """Let the time pass until a sleep, or the wait for a signal, is over."""
        due = {call.path: at + call.timeout_s for call, at in self._open if call.timeout_s is not None}
        still = [call for call, _ in self._open if call.kind in (CallKind.SLEEP, CallKind.SIGNAL) and call.path in due]
        first = min(still, key=lambda call: due[call.path], default=None)
        left_s = 0.0 if first is None else due[first.path] - time.monotonic()
        if first is None or (first.kind is CallKind.SIGNAL and left_s > _SIGNAL_S):
            names = ", ".join(call.target for call, _ in self._open if call.kind is CallKind.SIGNAL)
            raise TaskError(f"waits for signal {names}: give it with --signal NAME=JSON")
        time.sleep(max(0.0, left_s))
        self._settle(first, _NULL)

    def _given(self, call: FlowCall) -> bytes:
        return filled(call.given, [self._came[path].value for path in call.takes])

    def _failed_input(self, call: FlowCall) -> Failure | None:
        return next((failure for path in call.takes if (failure := self._came[path].failure) is not None), None)

    def _settle(self, call: FlowCall, value: bytes = b"", failure: Failure | None = None) -> None:
        self._open = [each for each in self._open if each[0] is not call]
        self._came[call.path] = Deliver(call.path, value, failure)


def main() -> None:
    """Run a workflow and print what it returns, as JSON."""
    parser = argparse.ArgumentParser(prog="medley dev")
    parser.add_argument("file", type=Path)
    parser.add_argument("--workflow")
    parser.add_argument("--arguments", default="{}")
    parser.add_argument("--gateway", default="")
    parser.add_argument("--signal", action="append", default=[])
    given = parser.parse_args()
    try:
        print(_shown(_ran(given)))
    except (TaskError, ValueError, OSError) as error:
        sys.exit(f"medley: error: {error}")


def _ran(given: argparse.Namespace) -> Any:
    source, file = given.file.read_text(), str(given.file)
    sys.path.insert(0, str(given.file.absolute().parent))
    app = load_app(source, file)
    name = given.workflow or (next(iter(app.flows)) if len(app.flows) == 1 else "")
    if not name:
        raise TaskError(f"{file} has {len(app.flows)} workflows ({', '.join(app.flows)}): say which, FILE.py:NAME")
    info, arguments = app.info(name), app.arguments(name, msgspec.json.decode(given.arguments))
    signals: dict[str, list[Any]] = {}
    for each in given.signal:
        key, _, value = each.partition("=")
        signals.setdefault(key, []).append(msgspec.json.decode(value or "null"))
    run = DevRun(app, "dev", gateway_url(given.gateway) if given.gateway else "", signals)
    ended = FlowRun("dev", info.max_calls, run.exchange).executed(app.flows[name], arguments, file)
    if isinstance(ended, Broke):
        raise TaskError(ended.fault.reason)
    run.add(ended.calls)
    return unpacked(filled(ended.answer, run.finish(ended.gives)), ())


def _shown(value: Any) -> str:
    return msgspec.json.encode(value).decode()


if __name__ == "__main__":
    main()
