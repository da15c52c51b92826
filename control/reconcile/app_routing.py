"""Any-to-any models of a plan as nodes and gateways know them: their files, and their part of the routing table."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from control.fleet.graph_routing import graph_models, served_app
from control.fleet.routing import GatewayModel
from control.gateway.published import MediaTerms
from control.gateway.published_app import ServedApp, TaskCode
from control.hub.deployed import ModelFiles
from control.planning.app_run import AppRun
from control.planning.graph_sources import app_works
from control.planning.world import World
from templates_lib.apps.graph_app import PublishedApp, app_of
from templates_lib.graphs.component import DecoderSpec
from templates_lib.graphs.unit_room import slab_mib

_BESIDE = ("generation_config.json", "preprocessor_config.json")
"""Files beside a config.json that say more of how a model is asked."""
_MOST_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class AppRouting:
    models: dict[str, GatewayModel] = field(default_factory=dict)
    """A model of the table for each request type that is answered with text."""
    apps: tuple[ServedApp, ...] = ()


def app_files(world: World) -> dict[str, ModelFiles]:
    """Name of an app → the files that nodes need for its executors."""
    return {app.name: _files(app, run) for app, run in _run(world)}


def app_routing(world: World, created: datetime, tokenizer: Callable[[str], str]) -> AppRouting:
    """Make the part of the routing table that serves a world's apps, but those without weights. Arguments, and what is
    raised, are those of `control.reconcile.ordering.routing`."""
    works = app_works(world.sources) if world.graphs else {}
    models, apps = dict[str, GatewayModel](), list[ServedApp]()
    for app, run in _run(world):
        text = tokenizer(run.weights)
        terms = MediaTerms(_asked(app.config, Path(text)))
        models |= graph_models(works[app.name], terms, text, int(created.timestamp()), world.name)
        apps.append(served_app(works[app.name], TaskCode(run.task.file, run.task.text, run.name)))
    return AppRouting(models, tuple(apps))


def _run(world: World) -> Iterator[tuple[PublishedApp, AppRun]]:
    runs = world.fleet.app_runs
    return ((app, runs[app.name]) for app in world.fleet.graph_apps if app.name in runs)


def _files(app: PublishedApp, run: AppRun) -> ModelFiles:
    graph = app_of(app).graph
    specs = (component.spec for component in graph.components)
    decoders = [spec.model for spec in specs if isinstance(spec, DecoderSpec)]
    vocabulary = max((model.vocab_size for model in decoders), default=0)
    context = max((model.max_context_tokens for model in decoders), default=1)
    return ModelFiles(app.name, run.weights, vocabulary, context, slab_mib=slab_mib(graph))


def _asked(config: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The config that the model is published with, and what files beside its tokenizer say of tokens that end an answer
    or are never written, and of how its pictures are made."""
    found = dict(config)
    for name in _BESIDE:
        said = _read(folder / name)
        if name.startswith("preprocessor"):
            found |= {} if not said or "preprocessor_config" in found else {"preprocessor_config": said}
        else:
            found |= {key: said[key] for key in ("eos_token_id", "suppress_tokens") if key in said}
    # CTranslate2's config says of a model how it is asked, and nothing of its shape.
    converted = _read(folder / "config.json").get("suppress_ids")
    return {"suppress_tokens": converted, **found} if isinstance(converted, list) else found


def _read(path: Path) -> dict[str, Any]:
    """The object in a file; empty where there is none that can be read: what a file says beside a config is a help."""
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(_MOST_BYTES))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
