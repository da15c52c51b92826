"""Any-to-any models of a plan as nodes and gateways know them: their files, and their part of the routing table."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from control.fleet.graph_routing import graph_models, served_app
from control.fleet.routing import GatewayModel
from control.gateway.published import Hold, MediaTerms
from control.gateway.published_app import ServedApp, TaskCode
from control.hub.deployed import ModelFiles
from control.planning.app_demand import Metered
from control.planning.app_run import AppRun
from control.planning.graph_sources import app_works
from control.planning.world import World
from control.reconcile.tokenizers import AwaitedError
from templates_lib.apps.graph_app import PublishedApp, app_of, published_graph
from templates_lib.graphs.component import DecoderSpec
from templates_lib.graphs.families.parts import PREPROCESSOR
from templates_lib.graphs.read import graph_from_config
from templates_lib.graphs.unit_room import slab_mib
from templates_lib.values.gpu import GIB

_NEAR = 0.02
"""Sizes of weights that differ by no more may be of one model, read with another head or norm."""
_MOST_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class AppRouting:
    models: dict[str, GatewayModel] = field(default_factory=dict)
    """A model of the table for each request type that is answered with text."""
    apps: tuple[ServedApp, ...] = ()
    unserved: Mapping[str, str] = field(default_factory=dict)
    """App that cannot be asked → why."""


def app_files(world: World) -> dict[str, ModelFiles]:
    """Name of an app → the files that nodes need for its executors."""
    return {app.name: _files(app, run) for app, run in _run(world)}


def app_routing(world: World, created: datetime, tokenizer: Callable[[str], str]) -> AppRouting:
    """Make the part of the routing table that serves a world's apps, but those without weights, or whose weights
    are another model's. Arguments are those of `control.reconcile.ordering.routing`. Raises AwaitedError."""
    works = app_works(world.sources) if world.graphs else {}
    models, apps, unserved = dict[str, GatewayModel](), list[ServedApp](), dict[str, str]()
    for app, run in _run(world):
        try:
            text = tokenizer(run.weights)
            terms = MediaTerms(asked_config(app, Path(text)))
            about = text, int(created.timestamp()), world.name, hold_of(world, app.name)
            own = graph_models(works[app.name], terms, run.dispatch, *about)
            served = served_app(works[app.name], TaskCode(run.task.file, run.task.text, run.name))
        except AwaitedError:
            raise
        except (ValueError, LookupError) as error:  # a fault of one app: the fleet's others are served
            unserved[app.name] = str(error)
            continue
        models |= own
        apps.append(served)
    return AppRouting(models, tuple(apps), unserved)


def hold_of(world: World, app: str) -> Hold | None:
    """Terms on which requests wait while nothing serves an app; None: it has no metered demand, and they are
    refused."""
    asked = world.fleet.app_demand[app]
    return Hold(asked.max_held_requests, asked.hold_timeout_s) if isinstance(asked, Metered) else None


def _run(world: World) -> Iterator[tuple[PublishedApp, AppRun]]:
    runs = world.fleet.app_runs
    return ((app, runs[app.name]) for app in world.fleet.graph_apps if app.name in runs)


def _files(app: PublishedApp, run: AppRun) -> ModelFiles:
    graph = app_of(app).graph
    specs = (component.spec for component in graph.components)
    decoders = [spec.model for spec in specs if isinstance(spec, DecoderSpec)]
    # Layouts of schedulers have one token and one position at least, also where no component writes.
    vocabulary = max((model.vocab_size for model in decoders), default=1)
    context = max((model.max_context_tokens for model in decoders), default=1)
    return ModelFiles(app.name, run.weights, vocabulary, context, slab_mib=slab_mib(graph))


def asked_config(app: PublishedApp, folder: Path) -> dict[str, Any]:
    """Return the config that a model is asked by: its own, where it lies beside its tokenizer in `folder`, and else the
    one that it is planned by, with what other files there say. Raises ValueError for that of another model."""
    own = _read(folder / "config.json")
    found = dict(app.config)
    if own.get("model_type") == found.get("model_type"):
        found = {key: value for key, value in found.items() if key == PREPROCESSOR} | own
        _check_same(app, found)
    said = _read(folder / "generation_config.json")
    found |= {key: said[key] for key in ("eos_token_id", "suppress_tokens") if key in said}
    if look := _read(folder / f"{PREPROCESSOR}.json"):
        known = found.get(PREPROCESSOR)
        found[PREPROCESSOR] = {**(known if isinstance(known, dict) else {}), **look}
    # CTranslate2's config says of a model how it is asked, and nothing of its shape.
    converted = own.get("suppress_ids")
    return {"suppress_tokens": converted, **found} if isinstance(converted, list) else found


def _check_same(app: PublishedApp, config: dict[str, Any]) -> None:
    """Raises ValueError."""
    planned, there = published_graph(app), graph_from_config(config, app.graph, app.revision)
    for component in planned.components:
        other = there.component(component.name)
        is_same = (component.takes, component.gives) == (other.takes, other.gives)
        if not is_same or not math.isclose(component.weight_bytes, other.weight_bytes, rel_tol=_NEAR):
            sizes = f"{other.weight_bytes / GIB:.3g} GiB, planned {component.weight_bytes / GIB:.3g}"
            raise ValueError(
                f"{app.name}: its weights are of another model than {app.graph}: {component.name} has {sizes}; name "
                "the weights of the graph, or the graph by the path of their config.json"
            )


def _read(path: Path) -> dict[str, Any]:
    """The object in a file; empty where there is none that can be read: what a file says beside a config is a help."""
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(_MOST_BYTES))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
