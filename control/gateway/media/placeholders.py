"""Where the rows of pictures and sounds stand in a prompt: one token for each row, in place of the one that the chat
template writes for a picture or a sound (as processors of transformers have it)."""

from collections.abc import Mapping, Sequence

from templates_lib.graphs.component import Modality


class PlaceholderError(ValueError):
    """The prompt has no place for what the request brings, or places for more; the message says which."""


def expanded(
    tokens: Sequence[int], marks: Mapping[Modality, int], units: Sequence[tuple[Modality, int]]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the prompt with as many tokens as rows for each unit, and the first place of each unit.

    `marks`: the token that stands for a picture or sound, by kind. `units`: kinds and rows, in their order within a
    kind. Raises PlaceholderError."""
    kinds = {mark: kind for kind, mark in marks.items()}
    waiting = {kind: [n for n, (own, _) in enumerate(units) if own is kind] for kind, _ in units}
    found: list[int] = []
    places = [-1] * len(units)
    for token in tokens:
        kind = kinds.get(token)
        if kind is None:
            found.append(token)
            continue
        if not waiting.get(kind):
            raise PlaceholderError(f"the text has a place for one more {kind} than the request brings")
        unit = waiting[kind].pop(0)
        places[unit] = len(found)
        found += [token] * units[unit][1]
    for kind, left in waiting.items():
        if left:
            raise PlaceholderError(f"the model's chat template writes no place for {len(left)} {kind} part(s)")
    return tuple(found), tuple(places)
