"""The process that runs the code of one workflow: `python -m medley_sdk.flows.runner`, asked over its standard input.

It has no network where the system lets it do without, writes no files, and is bounded in memory and processor time.
"""

import msgspec

from medley_sdk.flows.app import App, load_app
from medley_sdk.flows.isolation import isolated
from medley_sdk.flows.messages import Broke, Deliver, LoadApp, Start, Step, ToRunner
from medley_sdk.flows.pipes import Pipes
from medley_sdk.flows.run import FlowRun
from medley_sdk.loading import fault_of
from medley_sdk.messages import Limits
from medley_sdk.sandbox import bound, bound_processor, taken_pipes


class Runner:
    def __init__(self, pipes: Pipes) -> None:
        self._pipes = pipes
        self._file, self._limits = "", Limits()
        self._app = App({}, {})

    def serve(self) -> None:
        for message in self._pipes.messages():
            bound_processor(self._limits.processor_s)
            match message:
                case LoadApp():
                    self._load(message)
                case Start():
                    self._start(message)

    def _load(self, ask: LoadApp) -> None:
        self._file, self._limits = ask.file, ask.limits
        is_isolated = isolated(network=False)
        bound(ask.limits)
        try:
            self._app = load_app(ask.source, ask.file)
            self._pipes.write(self._app.described(isolated=is_isolated))
        except BaseException as error:
            self._pipes.write(fault_of(error, ask.file))

    def _start(self, start: Start) -> None:
        try:
            info = self._app.info(start.flow)
            arguments = self._app.arguments(start.flow, start.arguments)
        except Exception as error:
            self._pipes.write(Broke((), fault_of(error, self._file)))
            return
        run = FlowRun(start.run, info.max_calls, self._exchanged)
        self._pipes.write(run.executed(self._app.flows[start.flow], arguments, self._file))

    def _exchanged(self, step: Step) -> Deliver:
        self._pipes.write(step)
        came = self._pipes.read()
        if not isinstance(came, Deliver):
            raise msgspec.ValidationError(f"{type(came).__name__} came where an outcome was waited for")
        bound_processor(self._limits.processor_s)  # between two steps
        return came


def main() -> None:
    asks, replies = taken_pipes()
    Runner(Pipes(asks, replies, ToRunner)).serve()


if __name__ == "__main__":
    main()
