"""Rows that other components made, which come with a step of a decoder beside its tokens."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddedRows:
    """Rows in place of the embeddings of consecutive tokens of one request, on the first stage."""

    request_id: str
    position: int
    """The first of the tokens, which are all of this step: who cuts a prompt within an image cuts its rows, too."""
    rows: torch.Tensor
    """(tokens, hidden size)"""


@dataclass(frozen=True, slots=True, eq=False)
class EncodedRows:
    """What an encoder made of a request, for a decoder that attends to it: for every stage, with the request's first
    step there. After a hand-off, too: these rows' keys and values are not handed over, the rows are given again."""

    request_id: str
    rows: torch.Tensor
    """(`facts.encoded_tokens`, `facts.encoded_width`)"""


@dataclass(frozen=True, slots=True, eq=False)
class GivenRows:
    """All that come with one step."""

    embedded: tuple[EmbeddedRows, ...] = ()
    encoded: tuple[EncodedRows, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.embedded and not self.encoded


NOTHING_GIVEN = GivenRows()
