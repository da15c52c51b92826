"""Request types of a graph: which components a request visits, and what it asks of each (Cornserve, section 4.1)."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations

from templates_lib.graphs.component import (
    Component,
    ComponentKind,
    ComponentWork,
    DecoderSpec,
    EncoderSpec,
    GeneratorSpec,
    Modality,
)
from templates_lib.graphs.model_graph import GraphError, ModelGraph
from templates_lib.graphs.objective import TypeObjective
from templates_lib.values.work import Unit

MIX_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class Lengths:
    """What a typical request brings and wants. The defaults are those of the Cornserve paper's Table 1, with an answer
    of half a minute where it is spoken."""

    prompt_tokens: float = 1000.0
    """Of text alone."""
    output_tokens: float = 100.0
    images: float = 1.0
    tokens_per_image: float = 600.0
    clips: float = 1.0
    clip_s: float = 8.0
    """Seconds of one clip that is heard."""
    speech_s: float = 30.0
    """Seconds of a spoken answer."""
    image_pixels: float = 512.0 * 512.0
    """Of an image that is made."""
    steps: float = 20.0
    """Denoising steps of such an image."""


@dataclass(frozen=True, slots=True)
class GraphRequestType:
    """Requests that visit the same components."""

    name: str
    work: Mapping[str, ComponentWork]
    """Component → what one request asks of it."""
    share: float = 1.0
    """Share of all requests, 0 to 1."""
    objective: TypeObjective | None = None
    """None: nobody asks how long a request takes."""

    @property
    def components(self) -> frozenset[str]:
        return frozenset(self.work)


def check_types(graph: ModelGraph, types: Iterable[GraphRequestType]) -> None:
    """Raise GraphError for a type that no path serves, types of the same components, or shares that are no mix."""
    seen: dict[frozenset[str], str] = {}
    total = 0.0
    for each in types:
        _check_type(graph, each.name, each.components)
        if each.components in seen:
            raise GraphError(f"{graph.id}: request types {seen[each.components]!r} and {each.name!r} visit the same "
                             f"components; make them one type with the mean of their work")  # fmt: skip
        if not math.isfinite(each.share) or each.share < 0:
            raise GraphError(f"{graph.id}: request type {each.name!r} has a share of {each.share}; say 0 to 1")
        seen[each.components] = each.name
        total += each.share
    if abs(total - 1.0) > MIX_TOLERANCE:
        raise GraphError(f"{graph.id}: the shares of its request types add up to {total:g}; they must add up to 1")


def possible_types(graph: ModelGraph) -> dict[str, frozenset[str]]:
    """Name → components of each type that the graph has a path for: what comes in, and what goes out.

    `image-text-to-audio`: a request with text and images whose answer is spoken.
    """
    found: dict[str, frozenset[str]] = {}
    encoders = [component for component in graph.components if component.kind is ComponentKind.ENCODER]
    for answering in (component for component in graph.components if component.answers is not None):
        for size in range(len(encoders) + 1):
            for chosen in combinations(encoders, size):
                names = _needed(graph, answering.name) | {component.name for component in chosen}
                if _broken(graph, names) is None:
                    read = {c.reads for c in graph.components if c.name in names and c.reads is not None}
                    inputs = [modality.value for modality in (Modality.IMAGE, Modality.AUDIO, Modality.TEXT)
                              if modality in read]  # fmt: skip
                    found.setdefault(f"{'-'.join(inputs)}-to-{answering.answers}", frozenset(names))
    return found


def request_type(
    graph: ModelGraph,
    name: str,
    components: Iterable[str],
    lengths: Lengths,
    share: float = 1.0,
    objective: TypeObjective | None = None,
) -> GraphRequestType:
    """The type of requests of these lengths that visit `components`. Raises GraphError where no path serves it, and for
    an objective that is not one of its answer."""
    names = frozenset(graph.order(components))
    _check_type(graph, name, names)
    work: dict[str, ComponentWork] = {}
    for each in graph.components:
        if each.name in names:
            work[each.name] = _work(graph, each, work, lengths)
    found = GraphRequestType(name, work, share, objective)
    if objective is not None and (why := objective.refusal(answer_of(graph, found))):
        raise GraphError(f"{graph.id}: request type {name!r} {why}")
    return found


def answer_of(graph: ModelGraph, kind: GraphRequestType) -> Modality:
    """What clients get: what the last component that answers makes."""
    return [c.answers for c in graph.components if c.name in kind.components and c.answers is not None][-1]


@dataclass(frozen=True, slots=True)
class Due:
    """Longest times of one request of a type, in seconds, when nothing waits; infinite without an objective."""

    first_s: float
    """Until its answer begins: for what reads it."""
    rest_s: float
    """From then until the answer ends: for what makes it. 0 for an image, which is there at once."""


def due_of(graph: ModelGraph, kind: GraphRequestType) -> Due:
    if kind.objective is None:
        return Due(math.inf, math.inf)
    tokens = speech_s = 0.0
    for each in graph.components:
        if each.name in kind.components:
            tokens += kind.work[each.name].units if each.answers is Modality.TEXT else 0.0
            speech_s += kind.work[each.name].units if each.answers is Modality.AUDIO else 0.0
    return Due(kind.objective.first_s, kind.objective.rest_s(tokens, speech_s))


def _work(
    graph: ModelGraph, component: Component, done: Mapping[str, ComponentWork], lengths: Lengths
) -> ComponentWork:
    """What a request asks of a component, once it is known what it asks of those before."""
    before = [done[edge.source] for edge in graph.sources(component.name) if edge.source in done]
    match component.spec:
        case EncoderSpec():
            return _read(component, lengths)
        case GeneratorSpec(pixels_per_row=pixels) if pixels:
            rows = lengths.image_pixels / pixels
            return ComponentWork(lengths.steps, 1.0, sum(each.units for each in before), rows)
        case GeneratorSpec():
            return ComponentWork(lengths.speech_s, 1.0)
        case DecoderSpec(cross_share=cross):
            if component.unit is Unit.PROMPT_TOKEN:
                return ComponentWork(lengths.prompt_tokens, 1.0)
            if component.unit is Unit.CODEC_TOKEN:
                read = sum(each.units + each.context_tokens for each in before)
                return ComponentWork(lengths.speech_s * component.units_per_second, 1.0, read)
            text = lengths.prompt_tokens if component.reads is Modality.TEXT else 1.0
            # Rows of encoders stand in the prompt, one for each of their tokens, unless layers attend to them apart.
            rows = sum(each.units for each in before)
            joined = 0.0 if cross else rows
            return ComponentWork(lengths.output_tokens, 1.0, text + joined, cross_tokens=cross * rows)


def _read(encoder: Component, lengths: Lengths) -> ComponentWork:
    """Tokens that an encoder makes of the images or clips of a request."""
    if encoder.reads is Modality.IMAGE:
        items, each = lengths.images, encoder.padded(lengths.tokens_per_image)
    else:
        items, each = lengths.clips, encoder.clip_units(lengths.clip_s)
    return ComponentWork(items * each, items)


def _needed(graph: ModelGraph, name: str) -> set[str]:
    """A component and all that it cannot work without."""
    needed = {name}
    for edge in graph.sources(name):
        if edge.required:
            needed |= _needed(graph, edge.source)
    return needed


def _check_type(graph: ModelGraph, name: str, components: frozenset[str]) -> None:
    graph.order(components)
    why = _broken(graph, components)
    if why is not None:
        raise GraphError(f"{graph.id}: no path serves request type {name!r}: {why}")


def _broken(graph: ModelGraph, names: Iterable[str]) -> str | None:
    """Say why no path leads through exactly these components; None: one does."""
    inside = frozenset(names)
    if not inside:
        return "it visits no component; name at least one"
    for component in graph.components:
        if component.name not in inside:
            continue
        lacking = [e.source for e in graph.sources(component.name) if e.required and e.source not in inside]
        if lacking:
            return f"{component.name!r} needs {lacking[0]!r}, which it does not visit; add it"
        used = any(edge.source == component.name and edge.target in inside for edge in graph.edges)
        if component.answers is None and not used:
            return f"nothing takes what {component.name!r} gives; add what does, or leave it out"
    if not any(component.answers is not None for component in graph.components if component.name in inside):
        return "none of its components answers; add one that does"
    return None
