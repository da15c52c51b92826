"""How one vector is made of a text's hidden states, as its model's own files have it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.messages.to_scheduler import Pooling
from templates_lib.models.sentence_modules import MODULES, read_modules

_POOLINGS = {"lasttoken": Pooling.LAST, "mean_tokens": Pooling.MEAN}
"""By sentence-transformers' names."""
_GGUF_POOLINGS = {1: Pooling.MEAN, 3: Pooling.LAST}
"""By llama.cpp's numbers (`enum llama_pooling_type`)."""


@dataclass(frozen=True, slots=True)
class Embedder:
    pooling: Pooling = Pooling.LAST
    """Of a decoder's tokens the last one alone has attended to all: vLLM's default, too."""
    normalises: bool = True
    """To length one."""
    refusal: str = ""
    """Why this model's embeddings cannot be made here; empty: they can."""


PLAIN = Embedder()


def read_embedder(folder: Path) -> Embedder:
    """Read the files beside a model's weights. What is not understood is no reason not to serve its text."""
    file = folder / MODULES
    if not file.is_file():
        return PLAIN
    try:
        found = read_modules(file.read_bytes(), lambda name: (folder / name).read_bytes())
    except (OSError, ValueError) as error:
        return Embedder(refusal=f"its files do not say how: {error}")
    if found.pooling not in _POOLINGS or found.others:
        what = f"pooling by {found.pooling}" if found.pooling not in _POOLINGS else f"a module {found.others[0]}"
        return Embedder(refusal=f"its files want {what}; pooling by {' or '.join(_POOLINGS)} alone is known here")
    return Embedder(_POOLINGS[found.pooling], found.normalises)


def embedder_of_gguf(metadata: Mapping[str, Any]) -> Embedder:
    kind = metadata.get(f"{metadata.get('general.architecture')}.pooling_type", 0)
    if kind in (0, *_GGUF_POOLINGS):
        return Embedder(_GGUF_POOLINGS.get(kind, Pooling.LAST))
    return Embedder(refusal=f"its file wants pooling of type {kind!r:.20}; last token and mean are known here")
