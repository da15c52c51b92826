"""Models of a launch: that engines run them, and that nodes can fetch and hold them."""

import json
from collections.abc import Generator, Iterator
from pathlib import Path

from control.planning.disks import node_gib
from control.planning.world import World
from control.preflight.finding import Finding, Status
from control.preflight.planned import Planned, cloud_of, engines_for
from templates_lib.apps.served_model import ServedModel
from templates_lib.models.held_model import refusal_at
from templates_lib.models.hub_weights import HubAwayError, HubCheckpoint, fetch_text, find_checkpoint, is_on_hub
from templates_lib.models.node_disk import GIB, beside_weights_bytes
from templates_lib.models.weights_place import NoWeightsError, weights_path
from templates_lib.values.clouds import LOCAL, SKYPILOT, cloud_kind
from templates_lib.values.engines import engines_at, model_engines, support_at

_GB = 1e9
_SAME = {"num_hidden_layers": "layers", "hidden_size": "hidden_size", "vocab_size": "vocab_size"}
"""Field of config.json → what the planner calls it."""


def of_models(planned: Planned) -> Iterator[Finding]:
    """Yield what is found of each model that the plan has instances of. Small files of its repository are fetched."""
    for served, clouds in planned.served():
        for cloud in clouds:
            for engine in planned.engines(served, cloud):
                yield from _engine(served, engine, cloud)
        found = yield from _weights(planned.world, served, clouds)
        if found is not None:
            yield from _disks(planned, served, found)


def of_wanted(world: World) -> Iterator[Finding]:
    """Yield what is found of the weights of all models of a fleet that may be run on other machines than this one,
    before there is a plan. Small files of their repositories are fetched."""
    clouds = tuple(sorted({offer.cloud for offer in world.quotes.offers}))
    if any(cloud != LOCAL for cloud in clouds):
        for served in world.recipe.served:
            yield from _weights(world, served, clouds)


def _weights(
    world: World, served: ServedModel, clouds: tuple[str, ...]
) -> Generator[Finding, None, HubCheckpoint | None]:
    """Return what the hub has of them; None where they are elsewhere, or it was not found."""
    place = world.weights.get(served.model.id)
    if place is None:
        what = "set `weights` of the model to hf:ORG/NAME, package:NAME or path:PATH"
        yield Finding("weights.place", served.name, Status.FAIL, f"nobody says where its weights are: {what}")
        return None
    if is_on_hub(place):
        return (yield from _on_hub(served, place))
    yield from _elsewhere(served, place, clouds)
    return None


def _engine(served: ServedModel, engine: str, cloud: str) -> Iterator[Finding]:
    """Four questions, of which each is asked where the one before it was answered well."""
    subject, stored = f"{served.name} on {cloud}", served.model.stored
    support = support_at(engine, cloud)
    if support is None:
        others = ", ".join(sorted(engines_at(cloud) & set(model_engines()))) or "none"
        what = f"nodes of {cloud} do not start engine {engine}: set `engine` of the model to one they start ({others})"
        yield Finding("engine.installed", subject, Status.FAIL, what)
        return
    yield Finding("engine.installed", subject, Status.PASS, f"nodes of {cloud} start engine {engine}")
    if stored is None:
        what = "nobody described its checkpoint: a node finds out when it loads it"
        yield Finding("engine.family", subject, Status.UNKNOWN, what)
        return
    why = refusal_at(cloud, engine, served.name, stored)
    if not support.knows(stored.family):
        yield Finding("engine.family", subject, Status.FAIL, why or "")
        return
    yield Finding("engine.family", subject, Status.PASS, f"engine {engine} runs models of family {stored.family}")
    held = " and ".join(dict.fromkeys(f"{each} as {support.weights.get(each, '?')}" for each in stored.formats))
    passes = f"weights in {held} once they are loaded"
    is_read = all(support.reads(stored.family, each) for each in stored.formats)
    yield Finding("format.weights", subject, Status.PASS if is_read else Status.FAIL, passes if is_read else why or "")
    if is_read and stored.head_size:
        runs = f"attention heads of {stored.head_size} numbers, and its windows"
        yield Finding("engine.attention", subject, Status.FAIL if why else Status.PASS, why or runs)


def _elsewhere(served: ServedModel, place: str, clouds: tuple[str, ...]) -> Iterator[Finding]:
    """Weights that are to be on nodes already."""
    away = [cloud for cloud in clouds if cloud != LOCAL]
    if away:
        what = f"nodes of {', '.join(away)} must have {place} in their image: it cannot be seen from here"
        yield Finding("weights.place", served.name, Status.UNKNOWN, what)
    try:
        found = weights_path(place)
    except NoWeightsError as error:
        # Gateways read the tokenizer where the control plane has it.
        name = "weights.place" if len(away) < len(clouds) else "tokenizer.files"
        yield Finding(name, served.name, Status.FAIL, str(error))
        return
    if len(away) < len(clouds):
        yield Finding("weights.place", served.name, Status.PASS, f"{place} is {found}")
    has_text = found.is_file() or (found / "tokenizer.json").exists() or any(found.glob("*.gguf"))
    detail = f"read from {found}" if has_text else f"{found} has no tokenizer.json: gateways cannot read prompts"
    yield Finding("tokenizer.files", served.name, Status.PASS if has_text else Status.FAIL, detail)


def _on_hub(served: ServedModel, place: str) -> Generator[Finding, None, HubCheckpoint | None]:
    try:
        found = find_checkpoint(place)
    except NoWeightsError as error:
        yield Finding("weights.repository", served.name, _status_of(error), str(error))
        return None
    size = sum(found.bytes_of.values()) / _GB
    commit = found.config.parent.name
    detail = (
        f"{place} at commit {commit[:12]}: {size:,.1f} GB in {len(found.bytes_of)} files; nodes fetch it themselves"
    )
    yield Finding("weights.repository", served.name, Status.PASS, detail)
    yield _architecture(served, found.config)
    try:
        files = fetch_text(place)
    except NoWeightsError as error:
        yield Finding("tokenizer.files", served.name, _status_of(error), str(error))
    else:
        names = ", ".join(each.name for each in files)
        yield Finding("tokenizer.files", served.name, Status.PASS, f"{names}, for gateways to read")
    return found


def _status_of(error: NoWeightsError) -> Status:
    return Status.UNKNOWN if isinstance(error, HubAwayError) else Status.FAIL


def _architecture(served: ServedModel, config: Path) -> Finding:
    """That what is there is what was planned: another model of the name would be loaded for minutes, and refused."""
    name = "weights.architecture"
    try:
        said = json.loads(config.read_bytes())
        text = said.get("text_config", said)
        told = {field: text[field] for field in _SAME if field in text}
    except (ValueError, AttributeError, TypeError) as error:
        return Finding(name, served.name, Status.FAIL, f"its config.json cannot be read: {error}")
    expected = {field: getattr(served.model, ours) for field, ours in _SAME.items()}
    other = [f"{field} {told[field]}, planned as {expected[field]}" for field in told if told[field] != expected[field]]
    if other:
        what = f"its config.json has {'; '.join(other)}: name the repository of the model that is planned"
        return Finding(name, served.name, Status.FAIL, what)
    return Finding(name, served.name, Status.PASS, ", ".join(f"{field} {value}" for field, value in told.items()))


def _disks(planned: Planned, served: ServedModel, found: HubCheckpoint) -> Iterator[Finding]:
    """The stage that fetches most, in each cloud that is rented, by the engines that are on its node."""
    most: dict[tuple[str, tuple[str, ...]], tuple[int, str]] = {}
    for instance, stage in planned.stages(served):
        cloud = cloud_of(instance)
        if cloud_kind(cloud).adapter == SKYPILOT:
            layers = f"layers {stage.first_layer} to {stage.first_layer + stage.layers - 1}"
            fetched, at = found.bytes_for(stage.first_layer, stage.layers), (cloud, engines_for(instance, served))
            most[at] = max(most.get(at, (0, "")), (fetched, layers))
    for (cloud, engines), (fetched, layers) in sorted(most.items()):
        size = node_gib((served,), engines)
        room = size * GIB - beside_weights_bytes(engines)
        detail = (
            f"a node with {layers} fetches {fetched / _GB:,.1f} GB; its disk of {size} GiB has "
            f"{room / _GB:.0f} GB beside image and engine {' and '.join(engines)}"
        )
        planned_gb = served.model.weight_bytes / _GB
        ask = f": the weights that are planned take {planned_gb:,.1f} GB; name a repository that has only these"
        is_enough = fetched <= room
        status = Status.PASS if is_enough else Status.FAIL
        yield Finding("disk.node", f"{served.name} on {cloud}", status, detail + ("" if is_enough else ask))
