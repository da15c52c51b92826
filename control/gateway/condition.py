"""What a gateway answers about itself: its metrics, and which models it can serve."""

from typing import Protocol

from control.gateway.dispatcher import Dispatcher
from control.gateway.metrics import GatewayMetrics
from control.gateway.readiness import Readiness
from control.gateway.table_keeper import TableKeeper


class Condition(Protocol):
    async def metrics(self) -> bytes:
        """Return the metrics in Prometheus' text format. Raises ApiError."""

    async def readiness(self) -> Readiness:
        """Raises ApiError."""


class OwnCondition:
    """The condition of this process."""

    def __init__(self, dispatcher: Dispatcher, table: TableKeeper, counted: GatewayMetrics) -> None:
        self._dispatcher = dispatcher
        self._table = table
        self.counted = counted

    @property
    def current(self) -> Readiness:
        models = self._dispatcher.models
        ready = sorted(model.id for model in models.values() if model.is_ready)
        return Readiness(ready, sorted(set(models) - set(ready)), self._table.problem)

    async def metrics(self) -> bytes:
        return self.counted.text()

    async def readiness(self) -> Readiness:
        return self.current
