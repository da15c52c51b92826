"""The any-to-any models that Medley knows by name: extracts of their published configs, with source and date."""

import json
from importlib.resources import files
from typing import Any

from templates_lib.graphs.model_graph import ModelGraph
from templates_lib.graphs.read import graph_from_config
from templates_lib.values.nearest_name import nearest_name

FOLDER = ("data", "graphs")


def graph_names() -> tuple[str, ...]:
    """List the names, sorted."""
    root = files("templates_lib").joinpath(*FOLDER)
    return tuple(sorted(path.name.removesuffix(".json") for path in root.iterdir() if path.name.endswith(".json")))


def graph_facts(name: str) -> dict[str, Any]:
    """What is known of a graph: `id`, `revision`, `source` and `config`. Raises LookupError with the nearest name."""
    if name not in (known := graph_names()):
        raise LookupError(f"unknown graph {name!r}; {nearest_name(name, known)}")
    facts: dict[str, Any] = json.loads(files("templates_lib").joinpath(*FOLDER, f"{name}.json").read_text("utf-8"))
    return facts


def load_graph(name: str) -> ModelGraph:
    """Raises LookupError with the nearest name."""
    facts = graph_facts(name)
    return graph_from_config(facts["config"], facts["id"], facts["revision"])
