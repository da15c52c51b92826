"""The models that Medley knows by name, and those whose measured deployments validate the cost model."""

import json
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from templates_lib.models.hf_config import model_from_hf_config
from templates_lib.models.hub_weights import PREFIX
from templates_lib.models.model_spec import ModelSpec, in_fp32

CATALOGUE = "models"
MEASURED = "models/measured"


def load_models() -> dict[str, ModelSpec]:
    """Model id → model: the six of the Coral paper's Table 3, and small ones for nodes without GPUs, as
    `data/models/*.json` describe them (source and date in each file)."""
    return {fact["id"]: _model(fact) for fact in (_read(path) for path in _facts(CATALOGUE))}


def weights_places() -> dict[str, str]:
    """Return for each model id where its weights are: in a package (`templates_lib.models.weights_place`), or in its
    repository on the hub (`templates_lib.models.hub_weights`)."""
    facts = [_read(path) for path in _facts(CATALOGUE)]
    return {fact["id"]: fact.get("weights", PREFIX + fact["revision"]) for fact in facts}


def measured_configs() -> dict[str, dict[str, Any]]:
    """Hugging Face path → config of the models in the measured deployments that validation reads."""
    return {fact["id"]: fact["config"] for fact in (_read(path) for path in _facts(MEASURED))}


def _model(fact: dict[str, Any]) -> ModelSpec:
    model = model_from_hf_config(fact["config"], fact["id"], fact["revision"])
    return in_fp32(model) if fact.get("served_as") == "fp32" else model


def _facts(folder: str) -> list[Traversable]:
    root = files("templates_lib").joinpath("data", *folder.split("/"))
    return sorted((p for p in root.iterdir() if p.name.endswith(".json")), key=lambda p: p.name)


def _read(path: Traversable) -> dict[str, Any]:
    fact: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return fact
