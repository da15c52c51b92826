"""The calls of one record as work for executors: which parts of a request are encoded where, and who answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medley_sdk.packing import unpacked
from medley_sdk.values import Call, InputRef, Kind, Record
from templates_lib.graphs.component import ComponentKind, Modality
from templates_lib.graphs.model_graph import ModelGraph
from templates_lib.tasks.recorded_path import recorded_path

_ANSWER = "what the last component gives"


class UnservedPathError(ValueError):
    """No executor does what the record asks, or gateways do not ask it so; the message says what."""


@dataclass(frozen=True, slots=True)
class EncodeStep:
    """One picture or sound for an encoder."""

    component: str
    leg: int
    """Of the route."""
    part: int
    """Among the parts of the request that are no text."""


@dataclass(frozen=True, slots=True)
class UnitGraph:
    record: Record
    encodes: tuple[EncodeStep, ...]
    writer: int
    """The call that answers: of a decoder, which writes, or of a generator."""
    leg: int
    """Its leg of the route."""
    component: str
    """That it is of."""

    @property
    def is_made(self) -> bool:
        """A generator answers, with what it makes of the request's text."""
        return self.record.calls[self.writer].unit.kind is Kind.GENERATOR

    @property
    def is_plain(self) -> bool:
        """What that call gives is the answer, as it comes."""
        record = self.record
        return record.awaits is None and unpacked(record.answer, [_ANSWER] * len(record.gives)) is _ANSWER


def unit_graph(
    graph: ModelGraph, record: Record, legs: Sequence[tuple[str, ...]], parts: Mapping[Modality, Sequence[int]]
) -> UnitGraph:
    """`legs`: components of each leg of the route that the record is for. `parts`: places of the request's pictures
    and sounds, by kind. Raises UnservedPathError, and GraphError for a record that is no path of the graph."""
    path = recorded_path(graph, record)
    encodes: list[EncodeStep] = []
    writers: list[tuple[int, int, str]] = []
    for step in path.steps:
        if step.role not in legs:
            raise UnservedPathError(f"the code has {'+'.join(step.role)} compute alone; the plan's route does not")
        leg = legs.index(step.role)
        kinds = {graph.component(name).kind for name in step.role}
        if kinds == {ComponentKind.ENCODER} and len(step.role) == 1:
            encodes += (EncodeStep(step.role[0], leg, _part(record.calls[n], parts)) for n in step.calls)
        elif len(step.role) == 1:
            (number,) = step.calls
            _check_plain(record.calls[number])
            writers.append((number, leg, step.role[0]))
        else:
            raise UnservedPathError(
                f"no executor computes {'+'.join(step.role)} as one: components of a path run apart"
            )
    if len(writers) != 1:
        raise UnservedPathError(
            f"{len(writers)} components write or make in one request; gateways serve paths with one"
        )
    found = UnitGraph(record, tuple(encodes), *writers[0])
    if graph.component(found.component).kind is ComponentKind.GENERATOR:
        _check_made(found)
    return found


def _check_made(graph: UnitGraph) -> None:
    """A generator is sent the request's text, and clients what it makes."""
    if any(not isinstance(ref, InputRef) for ref in graph.record.calls[graph.writer].takes):
        raise UnservedPathError(f"{graph.component} takes more than the request's text")
    if not graph.is_plain:
        raise UnservedPathError(f"the code makes another answer of what {graph.component} gives; return that itself")


def _part(call: Call, parts: Mapping[Modality, Sequence[int]]) -> int:
    if len(call.takes) != 1 or not isinstance(call.takes[0], InputRef):
        raise UnservedPathError(f"{call.unit.name} takes more than one picture or sound of the request at once")
    given = call.takes[0]
    return parts[Modality(given.modality)][given.index]


def _check_plain(call: Call) -> None:
    """The prompt is the conversation: text that the code hands on beside it would be left out."""
    if _has_values(unpacked(call.given, [None] * len(call.takes))):
        raise UnservedPathError(f"the code hands {call.unit.name} values of its own, beside the request's parts")


def _has_values(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_values, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_has_values, value))
    return value is not None
