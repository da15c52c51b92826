"""How a model of sentence-transformers makes embeddings, as the files beside its weights say.

`modules.json` lists what a text goes through: the transformer, a pooling whose kind is in a folder of its own, and
possibly a normalisation (sentence-transformers, `SentenceTransformer.save`).
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

MODULES = "modules.json"
_FOLDER = re.compile(r"[A-Za-z0-9_][\w.-]{0,63}", re.ASCII)
_FLAG = "pooling_mode_"


@dataclass(frozen=True, slots=True)
class SentenceModules:
    pooling: str
    """As `pooling_mode_…` of its config is called: `lasttoken`, `mean_tokens`, `cls_token` ..."""
    normalises: bool
    others: tuple[str, ...] = ()
    """Kinds of further modules, such as `Dense`."""


def pooling_file(modules: bytes) -> str | None:
    """Return the file, relative to `modules.json`, that says how is pooled; None: there is no pooling. Raises
    ValueError for what is no such list."""
    folder = next((folder for kind, folder in _listed(modules) if kind == "Pooling"), None)
    return None if folder is None else f"{folder}/config.json"


def read_modules(modules: bytes, read: Callable[[str], bytes]) -> SentenceModules:
    """`read`: a file, relative to `modules.json`. Raises ValueError, and what `read` does."""
    file, kinds = pooling_file(modules), [kind for kind, _ in _listed(modules)]
    if file is None:
        raise ValueError(f"{MODULES} lists no pooling")
    config = json.loads(read(file))
    if not isinstance(config, dict):
        raise ValueError(f"{file} is no JSON object")
    chosen = [name.removeprefix(_FLAG) for name, value in config.items() if name.startswith(_FLAG) and value is True]
    if len(chosen) != 1:
        raise ValueError(f"{file} says {len(chosen)} kinds of pooling; one is known to be right")
    others = tuple(kind for kind in kinds if kind not in ("Transformer", "Pooling", "Normalize"))
    return SentenceModules(chosen[0], "Normalize" in kinds, others)


def _listed(modules: bytes) -> list[tuple[str, str]]:
    """(kind, folder) of each module."""
    listed = json.loads(modules)
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise ValueError(f"{MODULES} is no list of modules")
    found = [(str(each.get("type", "")).rpartition(".")[2], str(each.get("path", ""))) for each in listed]
    for kind, folder in found:
        if folder and not _FOLDER.fullmatch(folder):
            raise ValueError(f"{MODULES}: module {kind} lies in {folder[:64]!r}, which is no folder beside it")
    return found
