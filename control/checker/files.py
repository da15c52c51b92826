"""Checking the files that `medley plan` wrote."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import msgspec

from templates_lib.values.plan import Plan
from templates_lib.values.snapshot import Snapshot
from templates_lib.values.stored_weights import StoredWeights

T = TypeVar("T")


class CheckInputError(ValueError):
    """A file that is no plan, or no snapshot; the text names the file and the place in it."""


def read_files(plan_path: Path, snapshot_path: Path) -> tuple[Plan, Snapshot]:
    """The plan in one JSON file and the snapshot in another.

    Keys that a plan does not have (such as `baselines`) are ignored; missing or mistyped ones raise CheckInputError,
    as do truncated files, numbers that JSON does not know, and a snapshot whose content is not what its version says.
    A snapshot file is the snapshot, or an object that holds it under `snapshot`.
    """
    plan = _decode(plan_path, _read(plan_path), Plan, "a plan (`medley plan -o json`)")
    raw = _read(snapshot_path)
    hint = "a snapshot (`medley plan --save-snapshot FILE`)"
    outer = _decode(snapshot_path, raw, dict[str, msgspec.Raw], hint)
    snapshot = _decode(snapshot_path, bytes(outer.get("snapshot", raw)), Snapshot, hint)
    for route in snapshot.routes:
        if any(not 0 <= end < len(route.legs) for edge in route.edges for end in (edge.source, edge.target)):
            raise CheckInputError(f"{snapshot_path}: an edge of route {route.id!r} names a leg that the route lacks")
    # The version is the hash of all else in the snapshot: 128 bits of BLAKE2b over its sorted JSON.
    content = msgspec.json.encode(replace(snapshot, version=""), order="sorted")
    expected = hashlib.blake2b(content, digest_size=16).hexdigest()
    if snapshot.version not in ("", expected):
        raise CheckInputError(
            f"{snapshot_path}: was edited: its content hashes to {expected}, but it says it is {snapshot.version}"
        )
    return plan, snapshot


def read_checkpoints(snapshot_path: Path) -> dict[str, StoredWeights]:
    """Model id → the checkpoint that it was planned from, of the models whose templates the snapshot file has a recipe
    for; none where it holds a snapshot alone. Raises CheckInputError."""
    outer = _decode(snapshot_path, _read(snapshot_path), _Recorded, "a snapshot (`medley plan --save-snapshot FILE`)")
    served = (one for source in outer.recipe.values() for one in source.served)
    return {one.model.id: one.model.stored for one in served if one.model.stored is not None}


class _Model(msgspec.Struct):
    id: str
    stored: StoredWeights | None = None


class _Served(msgspec.Struct):
    model: _Model


class _Source(msgspec.Struct):
    served: list[_Served] = []


class _Recorded(msgspec.Struct):
    """A recorded snapshot, as far as it says which checkpoints it was made for."""

    recipe: dict[str, _Source] = {}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CheckInputError(f"{path}: cannot be read: {error.strerror}") from error


def _decode(path: Path, content: bytes, kind: type[T], what: str) -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CheckInputError(f"{path}: is not {what}: {error}") from error
