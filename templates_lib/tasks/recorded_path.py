"""The path of one recorded run through a model's graph, or what is wrong with it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from medley_sdk.values import Call, CallRef, InputRef, Kind, Record
from templates_lib.executors.option import CompositeTask, DeploymentOption
from templates_lib.executors.path import path_of_task
from templates_lib.graphs.component import Modality
from templates_lib.graphs.model_graph import GraphEdge, GraphError, ModelGraph
from templates_lib.graphs.request_type import possible_types
from templates_lib.tasks.samples import type_of
from templates_lib.values.nearest_name import nearest_name


@dataclass(frozen=True, slots=True)
class Step:
    """Calls of one unit, and what they compute of the request."""

    calls: tuple[int, ...]
    option: tuple[str, ...]
    """Components of the unit, in the graph's order."""
    role: tuple[str, ...]
    """Those that were left to compute."""


@dataclass(frozen=True, slots=True)
class RecordedPath:
    request_type: str
    steps: tuple[Step, ...]
    streams: frozenset[tuple[str, str]]
    """Edges of the graph between steps that are handed on as they are made."""
    whole: frozenset[tuple[str, str]]
    """The others between steps."""

    @property
    def options(self) -> tuple[tuple[str, ...], ...]:
        return tuple(step.option for step in self.steps)


def recorded_path(graph: ModelGraph, record: Record) -> RecordedPath:
    """Raises GraphError, with the request type, for a run that does not compute each component of its type once, in
    the graph's order, or hands on what the graph does not."""
    kind = type_of(record.signature)
    try:
        return _path(graph, record, kind)
    except GraphError as error:
        raise GraphError(f"{kind}: {error}") from None


def _path(graph: ModelGraph, record: Record, kind: str) -> RecordedPath:
    known = possible_types(graph)
    if kind not in known:
        raise GraphError(f"{graph.id} has no such requests; {nearest_name(kind, known)}")
    steps = _steps(graph, record.calls, known[kind])
    _check_inputs(graph, record, steps)
    _check_use(record)
    _check_answer(graph, record, steps, Modality(record.signature.answer))
    streams, whole = _edges(graph, record.calls, steps)
    return RecordedPath(kind, steps, streams, whole)


def _steps(graph: ModelGraph, calls: Sequence[Call], components: frozenset[str]) -> tuple[Step, ...]:
    grouped: dict[tuple[str, ...], list[int]] = {}
    for number, call in enumerate(calls):
        option = graph.order(call.unit.components)
        if (kind := graph.component(option[-1]).kind.value) != call.unit.kind:
            raise GraphError(f"{call.unit.name} is called as {call.unit.kind}, but {option[-1]!r} is made as {kind}")
        before = grouped.setdefault(option, [])
        if before and (call.unit.kind is not Kind.ENCODER or any(_takes(call, other) for other in before)):
            raise GraphError(f"calls {call.unit.name} again; each component of a request is computed once, and only "
                             "encoders are called for each image or clip")  # fmt: skip
        before.append(number)
    path = path_of_task(graph, components, CompositeTask(tuple(DeploymentOption(option) for option in grouped)))
    if path is None:
        reached = frozenset().union(*grouped)
        lacking = [name for name in graph.order(components) if name not in reached]
        what = f"does not compute {lacking[0]!r}" if lacking else "computes a component before what it takes rows from"
        raise GraphError(f"{what}; its components are {', '.join(graph.order(components))}, in this order")
    roles = {visit.option: visit.components for visit in path.visits}
    for option in grouped:
        if "+".join(option) not in roles:
            raise GraphError(f"calls {'+'.join(option)}, which has nothing left to compute; leave it out")
    return tuple(Step(tuple(numbers), option, roles["+".join(option)]) for option, numbers in grouped.items())


def _takes(call: Call, other: int) -> bool:
    return any(isinstance(ref, CallRef) and ref.call == other for ref in call.takes)


def _check_inputs(graph: ModelGraph, record: Record, steps: Sequence[Step]) -> None:
    """Each part of the request goes to something that reads it."""
    unread = dict.fromkeys(_inputs(record))
    for step in steps:
        reads = {each.reads.value for name in step.role if (each := graph.component(name)).reads is not None}
        for ref in _refs(record.calls, step):
            if isinstance(ref, InputRef):
                if ref.modality not in reads:
                    raise GraphError(f"gives {ref.modality} of the request to {'+'.join(step.role)}, which reads none")
                unread.pop(ref, None)
    for ref in unread:
        raise GraphError(f"leaves {ref.modality} {ref.index} of the request unread; hand it to a unit that reads it")


def _inputs(record: Record) -> Iterator[InputRef]:
    signature = record.signature
    for modality, count in (("text", int(signature.text)), ("image", signature.images), ("audio", signature.audio)):
        yield from (InputRef(modality, place) for place in range(count))


def _refs(calls: Sequence[Call], step: Step) -> Iterator[InputRef | CallRef]:
    for number in step.calls:
        yield from calls[number].takes


def _check_use(record: Record) -> None:
    """Each call is made for another one, or for the answer."""
    used = {ref.call for call in record.calls for ref in call.takes if isinstance(ref, CallRef)} | _given(record)
    for number, call in enumerate(record.calls):
        if number not in used:
            raise GraphError(f"nothing takes what {call.unit.name} gives; hand it on, or leave the call out")


def _given(record: Record) -> set[int]:
    """Calls that the answer is made of."""
    found = {ref.call for ref in record.gives if isinstance(ref, CallRef)}
    return found if record.awaits is None else found | {record.awaits}


def _check_answer(graph: ModelGraph, record: Record, steps: Sequence[Step], wanted: Modality) -> None:
    answering = {
        number
        for step in steps
        for number in step.calls
        if any(graph.component(name).answers is wanted for name in step.role)
    }
    if any(isinstance(ref, InputRef) for ref in record.gives):
        raise GraphError("returns a part of the request; return what its units give")
    if not _given(record) & answering:
        raise GraphError(f"does not return the {wanted} that its units make; return the handle of the last call")


def _edges(
    graph: ModelGraph, calls: Sequence[Call], steps: Sequence[Step]
) -> tuple[frozenset[tuple[str, str]], frozenset[tuple[str, str]]]:
    """Edges between steps: those that stream, and the others."""
    place = {name: number for number, step in enumerate(steps) for name in step.role}
    crossing = [
        e for e in graph.edges if e.source in place and e.target in place and place[e.source] != place[e.target]
    ]
    made = {number: place for place, step in enumerate(steps) for number in step.calls}
    taken: dict[tuple[int, int], bool] = {}
    for step_number, step in enumerate(steps):
        for ref in _refs(calls, step):
            if isinstance(ref, CallRef):
                ends = made[ref.call], step_number
                taken[ends] = taken.get(ends, True) and ref.stream
    streams, whole = set[tuple[str, str]](), set[tuple[str, str]]()
    for edge in crossing:
        ends = place[edge.source], place[edge.target]
        if ends not in taken:
            raise GraphError(f"does not hand what {edge.source!r} gives to {edge.target!r}, which takes it")
        (streams if taken[ends] else whole).add((edge.source, edge.target))
    _check_taken(steps, crossing, place, taken)
    return frozenset(streams), frozenset(whole)


def _check_taken(
    steps: Sequence[Step], crossing: Sequence[GraphEdge], place: dict[str, int], taken: dict[tuple[int, int], bool]
) -> None:
    """What is handed on goes along an edge of the graph, as a stream only where that is one."""
    for (source, target), stream in taken.items():
        edges = [e for e in crossing if (place[e.source], place[e.target]) == (source, target)]
        names = f"what {'+'.join(steps[source].role)} gives", "+".join(steps[target].role)
        if not edges:
            raise GraphError(f"hands {names[0]} to {names[1]}, which takes nothing of it")
        if stream and not any(edge.stream for edge in edges):
            raise GraphError(f"streams {names[0]} to {names[1]}, which begins when all of it is there")
