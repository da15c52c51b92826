"""The requests that a task is recorded with, before any came: those of each type that it takes."""

from collections.abc import Iterator, Sequence
from itertools import chain, combinations

from medley_sdk.values import Signature

ORDER = ("image", "audio", "text")
"""Of modalities in the names of request types (`possible_types`)."""
COUNTS = (1, 2)
"""Images and clips of a sample: code that looks at one alone, or needs several, is found out."""


def samples(takes: Sequence[str], makes: Sequence[str]) -> dict[str, tuple[Signature, ...]]:
    """Request type → signatures of it. Text is always there where a task takes it; images and clips may be or not."""
    found: dict[str, tuple[Signature, ...]] = {}
    for answer in makes:
        for inputs in _inputs(takes):
            counts = COUNTS if {"image", "audio"} & inputs else COUNTS[:1]
            found[f"{'-'.join(each for each in ORDER if each in inputs)}-to-{answer}"] = tuple(
                Signature(answer, "text" in inputs, count * ("image" in inputs), count * ("audio" in inputs))
                for count in counts
            )
    return found


def _inputs(takes: Sequence[str]) -> Iterator[frozenset[str]]:
    media = [each for each in takes if each != "text"]
    text = frozenset({"text"} & {*takes})
    for chosen in chain.from_iterable(combinations(media, size) for size in range(len(media) + 1)):
        if inputs := text.union(chosen):
            yield inputs


def type_of(signature: Signature) -> str:
    """Name the request type of a request, as `possible_types` does."""
    there = {"image": signature.images, "audio": signature.audio, "text": signature.text}
    return f"{'-'.join(each for each in ORDER if there[each])}-to-{signature.answer}"
