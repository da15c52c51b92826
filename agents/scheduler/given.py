"""Rows that other components have made of a request: what stages take of them, and which requests fit that."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from agents.messages.component_work import PromptRows
from agents.messages.to_gateway import Failure
from agents.messages.to_scheduler import Generate
from agents.messages.to_stage import GridAt


@dataclass(frozen=True, slots=True)
class RowsTaken:
    """What the stages of a model take beside tokens: known once they have loaded."""

    position_axes: int = 1
    """Positions of a token."""
    attended_rows: int = 0
    """Of an encoder, that every request attends to, in KV blocks beside those of its tokens; 0: none."""
    most_held: int = 1
    """Rows of requests whose prompt is not computed yet, on a node of the first stage; one request may have more."""


def unfit_rows(request: Generate, taken: RowsTaken | None) -> Iterator[tuple[Failure, str]]:
    """Yield why rows of a request cannot be taken. `taken`: None where stages take none."""
    if taken is None:
        if request.given:
            yield Failure.UNSUPPORTED, "rows of other components are not taken here: `takes_rows` of the status says so"
        return
    attended = [each.rows for each in request.given if each.position is None]
    if attended != ([taken.attended_rows] if taken.attended_rows else []):
        yield (
            Failure.UNSUPPORTED,
            f"the model attends to {taken.attended_rows} rows of an encoder (0: to none), in one tensor without a "
            f"position; the request has {attended}",
        )
    end = 0
    for position, each in placed(request.given):
        if not end <= position <= position + each.rows <= len(request.prompt):
            span = f"rows of tokens [{position}, {position + each.rows})"
            yield (
                Failure.UNSUPPORTED,
                f"{span} overlap others, do not follow them, or end beyond the {len(request.prompt)} of the prompt",
            )
        end = position + each.rows
        if each.grid is not None and (taken.position_axes == 1 or prod(each.grid) != each.rows):
            yield (
                Failure.UNSUPPORTED,
                f"{each.rows} rows have a grid of {each.grid}, in a model whose tokens have {taken.position_axes} "
                "positions: with 3, a grid has as many places as rows",
            )


def placed(given: Sequence[PromptRows]) -> Iterator[tuple[int, PromptRows]]:
    """Yield rows that stand for tokens, with the first of these."""
    for each in given:
        if each.position is not None:
            yield each.position, each


def wanted_rows(given: Sequence[PromptRows], first_token: int) -> tuple[PromptRows, ...]:
    """Return the rows that stand for tokens from `first_token` on, where a prompt is computed from there."""
    return tuple(each for position, each in placed(given) if position + each.rows > first_token)


def attended_rows(given: Sequence[PromptRows]) -> tuple[PromptRows, ...]:
    return tuple(each for each in given if each.position is None)


def grids(given: Sequence[PromptRows]) -> tuple[GridAt, ...]:
    return tuple(GridAt(at, each.grid, each.frame_step) for at, each in placed(given) if each.grid is not None)


def may_share_blocks(given: Sequence[PromptRows]) -> bool:
    """Tell whether it is known what KV blocks of such a prompt hold, by more than its tokens."""
    return all(each.key is not None and each.position is not None for each in given)


def content_of(given: Sequence[PromptRows], first: int, end: int) -> bytes:
    """Return what tells the content of the tokens [first, end) of a prompt apart from that of others with the same
    tokens; empty where no rows stand for any."""
    there = ((at, each) for at, each in placed(given) if at < end and at + each.rows > first)
    told = ((at - first, each.rows, each.grid, each.frame_step, each.key) for at, each in there)
    return "".join(map(repr, told)).encode()
