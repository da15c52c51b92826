"""The world of a fleet on record: everything that its plan is made from."""

from collections.abc import Collection
from pathlib import Path

from control.fleet_file.document import Document, Key, parse
from control.fleet_file.own_model import OwnModel
from control.fleet_file.problem import SpecError
from control.fleet_file.section import is_path, is_task_file
from control.lifecycle.fleet import FleetRecord
from control.planning.world import World, stated_apps, world_of
from templates_lib.apps.graph_app import PublishedApp


def world_of_record(record: FleetRecord, own: Collection[OwnModel] = ()) -> World:
    """Read a fleet on record. `own`: registered models. Raises SpecError with every problem of the spec, OfferError for
    a market that cannot be had."""
    document = document_of(record.spec, record.folder, record.name)
    return world_of(document, own)


def apps_of_record(record: FleetRecord, own: Collection[OwnModel] = ()) -> tuple[PublishedApp, ...]:
    """Read the any-to-any models of a fleet on record, and nothing of a market. `own`: registered models. Raises
    SpecError."""
    return stated_apps(document_of(record.spec, record.folder, record.name), own)


def document_of(spec: str, folder: str, name: str) -> Document:
    """The text of a fleet's spec, read; `folder` as in `FleetRecord`. Raises SpecError."""
    document = parse(spec, str(Path(folder or "/nonexistent") / f"{name}.yaml"))
    if not folder:
        refuse_paths(document)
    return document


def files_of(record: FleetRecord) -> tuple[Path, ...]:
    """List the files that its spec names, and that its world is read from. Raises SpecError."""
    if not record.folder:
        return ()
    document = document_of(record.spec, record.folder, record.name)
    names = [(key, name) for key, name in _paths(document) if key[-1] not in ("weights", "key_file")]
    return tuple(Path(record.folder) / name for _, name in names)


def refuse_paths(document: Document) -> None:
    """A spec that came over the network must not have the control plane read its own machine's files."""
    problems = [
        document.problem(key, f"{'.'.join(map(str, key))}: {name!r} is a path; a spec that is sent may name none")
        for key, name in _paths(document)
    ]
    if problems:
        raise SpecError(problems)


def _paths(document: Document) -> list[tuple[Key, str]]:
    """List where a spec names files, and which."""
    value = document.value if isinstance(document.value, dict) else {}
    named: list[tuple[Key, object]] = [
        (("offers", "availability"), _at(value, "offers", "availability")),
        *((("offers", "files", i), name) for i, name in enumerate(_list(_at(value, "offers", "files")))),
    ]
    for place, model in enumerate(_list(value.get("models"))):
        keys = (("model",), ("workload",), ("demand", "trace"), ("demand", "arrivals", "trace"), ("weights",))
        named += [(("models", place, *key), _at(model, *key)) for key in keys]
    for place, app in enumerate(_list(value.get("apps"))):
        named += [
            (("apps", place, *key), _at(app, *key))
            for key in (("graph",), ("task",), ("demand", "trace"), ("weights",))
        ]
        for number, each in enumerate(_list(_at(app, "request_types"))):
            named.append((("apps", place, "request_types", number, "workload"), _at(each, "workload")))
    for place, cloud in enumerate(_list(value.get("clouds"))):
        for number, host in enumerate(_list(_at(cloud, "hosts"))):
            named.append((("clouds", place, "hosts", number, "key_file"), _at(host, "key_file")))
    return [(key, name) for key, name in named if isinstance(name, str) and _is_file(key, name)]


def _is_file(key: Key, name: str) -> bool:
    if key[-1] == "weights":  # of the hub, or of a package, they are no file of the control plane's
        return name.startswith("path:")
    return key[0] in ("offers", "clouds") or is_path(name) or (key[-1] == "task" and is_task_file(name))


def _at(value: object, *keys: str) -> object:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
