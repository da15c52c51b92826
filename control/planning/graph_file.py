"""An any-to-any model by name or by its published config."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from templates_lib.graphs.catalogue import graph_facts
from templates_lib.graphs.families.parts import PREPROCESSOR
from templates_lib.graphs.model_graph import ModelGraph
from templates_lib.graphs.read import graph_from_config
from templates_lib.models.config_fields import UnsupportedModelError

MOST_BYTES = 4 << 20
"""Of a config.json: the largest published ones are a few hundred KiB."""


@dataclass(frozen=True, slots=True)
class GraphFile:
    id: str
    revision: str
    config: dict[str, Any]
    """As published."""
    source: str
    """Where its figures come from."""


def graph_file(name: str) -> GraphFile:
    """The config of a model that is not read yet.

    `name` is one of the catalogue's, or a path that ends in `.json`. Raises LookupError with the nearest name,
    ValueError with the file, OSError for a file that cannot be read.
    """
    if not name.endswith(".json"):
        facts = graph_facts(name)
        return GraphFile(facts["id"], facts["revision"], facts["config"], facts["source"])
    path = Path(name)
    text, config = _read(path)
    # How large pictures are made stands in another file beside it, for some families.
    beside = path.with_name(f"{PREPROCESSOR}.json")
    if isinstance(config, dict) and PREPROCESSOR not in config and beside != path and beside.is_file():
        more, config[PREPROCESSOR] = _read(beside)
        text += more
    # The catalogue's own files hold a config with its source: what `list` names can be copied and changed.
    inner = config.get("config") if isinstance(config, dict) else None
    # The text of the file is the only revision that is known of it.
    revision = f"config.json {hashlib.blake2b(text, digest_size=8).hexdigest()}"
    return GraphFile(path.stem, revision, inner if isinstance(inner, dict) else config, str(path))


def _read(path: Path) -> tuple[bytes, Any]:
    """Text and value of a JSON file. Raises ValueError with its name, OSError."""
    with path.open("rb") as file:
        text = file.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise ValueError(f"{path}: is larger than {MOST_BYTES >> 20} MiB; give the config.json of a model")
    try:
        return text, json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: is not JSON ({error}); give the config.json of a model") from None


def graph_beside(name: str, folder: Path) -> GraphFile:
    """Read the config that a file of `folder` names. Raises LookupError and ValueError as `graph_file`, also for a file
    that cannot be read."""
    try:
        return graph_file(str(folder / name) if name.endswith(".json") else name)
    except OSError as error:
        raise ValueError(f"{name}: cannot be read ({error.strerror})") from None


def named_graph(name: str) -> tuple[ModelGraph, str]:
    """The graph, and where its figures come from. Raises as `graph_file`, and ValueError with the key of a config that
    is not read."""
    found = graph_file(name)
    try:
        return graph_from_config(found.config, found.id, found.revision), found.source
    except UnsupportedModelError as error:
        raise ValueError(f"{found.source}: {error}") from None
