"""The process that runs the services of one app: `python -m medley_sdk.flows.worker`, asked over its standard input.

It holds the services that it was asked for until it is to drop them, and computes one batch at a time (DyOrc, section
6.1).
"""

from typing import Any

from medley_sdk.flows.app import App, load_app
from medley_sdk.flows.batch import Given, computed
from medley_sdk.flows.isolation import isolated
from medley_sdk.flows.memory import give_back_memory
from medley_sdk.flows.messages import (
    Batch,
    DropService,
    LoadApp,
    LoadService,
    Outcome,
    ServiceDropped,
    ServiceLoaded,
    ToWorker,
)
from medley_sdk.flows.pipes import Pipes
from medley_sdk.loading import fault_of
from medley_sdk.sandbox import taken_pipes


class Worker:
    def __init__(self, pipes: Pipes) -> None:
        self._pipes, self._file = pipes, ""
        self._app = App({}, {})
        self._loaded: dict[str, Any] = {}

    def serve(self) -> None:
        for message in self._pipes.messages():
            match message:
                case LoadApp():
                    self._load(message)
                case LoadService(service):
                    self._load_service(service)
                case DropService(service):
                    self._loaded.pop(service, None)
                    give_back_memory()
                    self._pipes.write(ServiceDropped(service))
                case Batch(service, items):
                    read = (self._pipes.read() for _ in range(items))
                    for outcome in self._computed(service, [Given(item.call, item.given) for item in read]):
                        self._pipes.write(outcome)

    def _load(self, ask: LoadApp) -> None:
        self._file = ask.file
        is_isolated = isolated(network=ask.network)
        try:
            self._app = load_app(ask.source, ask.file)
            self._pipes.write(self._app.described(isolated=is_isolated))
        except BaseException as error:
            self._pipes.write(fault_of(error, ask.file))

    def _load_service(self, name: str) -> None:
        try:
            if name not in self._loaded:
                self._loaded[name] = self._app.services[name].made_of()
        except BaseException as error:
            self._pipes.write(fault_of(error, self._file))
        else:
            self._pipes.write(ServiceLoaded(name))

    def _computed(self, name: str, batch: list[Given]) -> list[Outcome]:
        return computed(self._app.services[name], self._loaded[name], batch, self._file)


def main() -> None:
    asks, replies = taken_pipes()
    Worker(Pipes(asks, replies, ToWorker)).serve()


if __name__ == "__main__":
    main()
