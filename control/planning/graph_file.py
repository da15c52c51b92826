"""An any-to-any model by name or by its published config."""

import json
from pathlib import Path

from templates_lib.graphs.catalogue import graph_facts
from templates_lib.graphs.model_graph import ModelGraph
from templates_lib.graphs.read import graph_from_config
from templates_lib.models.config_fields import UnsupportedModelError

MOST_BYTES = 4 << 20
"""Of a config.json: the largest published ones are a few hundred KiB."""


def named_graph(name: str) -> tuple[ModelGraph, str]:
    """The graph, and where its figures come from.

    `name` is one of the catalogue's, or a path that ends in `.json`. Raises LookupError with the nearest name,
    ValueError with the file and the key, OSError for a file that cannot be read.
    """
    if not name.endswith(".json"):
        facts = graph_facts(name)
        return graph_from_config(facts["config"], facts["id"], facts["revision"]), facts["source"]
    path = Path(name)
    with path.open("rb") as file:
        text = file.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise ValueError(f"{path}: is larger than {MOST_BYTES >> 20} MiB; give the config.json of a model")
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: is not JSON ({error}); give the config.json of a model") from None
    # The catalogue's own files hold a config with its source: what `list` names can be copied and changed.
    inner = config.get("config") if isinstance(config, dict) else None
    try:
        return graph_from_config(inner if isinstance(inner, dict) else config, path.stem, str(path)), str(path)
    except UnsupportedModelError as error:
        raise ValueError(f"{path}: {error}") from None
