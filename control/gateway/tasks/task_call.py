"""What a request of an app asks of executors, whichever route it takes."""

from collections.abc import Mapping
from dataclasses import dataclass

from control.gateway.media.media_unit import MediaUnits
from control.gateway.media.reading import MediaReading
from control.gateway.model_entry import ModelEntry
from control.gateway.tasks.app_entry import AppEntry
from control.gateway.tasks.unit_graph import UnitGraph
from medley_sdk.values import Signature


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """A request of an app, before its prompt and its parts are read."""

    app: AppEntry
    signature: Signature
    model: ModelEntry
    """What serves its type."""


@dataclass(frozen=True, slots=True)
class TaskCall:
    app: AppEntry
    graphs: Mapping[str, UnitGraph]
    """By route."""
    reading: MediaReading
    units: MediaUnits
    places: tuple[int | None, ...]
    """First token of each unit in the prompt; None: the decoder attends to its rows."""

    @property
    def is_plain(self) -> bool:
        """What the decoder writes is the answer, as it comes."""
        return all(graph.is_plain for graph in self.graphs.values())
