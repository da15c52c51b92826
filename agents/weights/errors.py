"""Errors of weights; the message names the file and what to do."""

import difflib
from collections.abc import Iterable
from pathlib import Path


class WeightsError(Exception):
    """Base: these weights cannot be loaded from this place."""


class MissingWeightsError(WeightsError):
    """A model, file or tensor that is needed is not there: fetch it again, or from another source."""


class CorruptWeightsError(WeightsError):
    """The file is there but cannot be what was published: delete it and fetch it again, or from another source."""

    def __init__(self, file: Path, why: str) -> None:
        super().__init__(f"{file}: {why}. Delete the file and fetch it again")
        self.file = file
        self.why = why


def nearest(name: str, known: Iterable[str]) -> str:
    """`: did you mean 'x'?` for the most similar known name, or nothing."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f": did you mean {near[0]!r}?" if near else ""
