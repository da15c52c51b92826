"""A snapshot in a file, with the recipe of its library, so that its plan can be made again exactly."""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import msgspec
import numpy as np

from control.planning.recipe import ListedRecipe, Recipe, SourceRecipe
from control.planning.source_kinds import SOURCE_KINDS, kind_of
from templates_lib.sources.json_source import read_json_source
from templates_lib.values.nearest_name import nearest_name
from templates_lib.values.plan import Plan
from templates_lib.values.snapshot import Snapshot

FORMAT = "medley/snapshot/v1"


class RecordingError(ValueError):
    """A recorded snapshot that cannot be replayed."""


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """A snapshot and the recipe of its library. In a file made by hand, `version`, `library_version` and
    `cost_model_fingerprint` of the snapshot may be empty: they are then filled in. Where they are set, they must be
    true."""

    format: str
    name: str
    snapshot: Snapshot
    recipe: Recipe | None = None
    """None only in a file made by hand, whose templates come in another."""
    notes: tuple[str, ...] = ()
    """Notes on its prices for the reader of a plan."""
    begun_from: dict[str, float] | None = None
    """Utilisation caps that the search for those of the snapshot began from; None: nothing was searched for, or not
    yet."""
    begun_from_templates: dict[str, dict[str, float]] | None = None
    """The same of single templates."""

    def planned_on(self, snapshot: Snapshot) -> "Recording":
        """The same with the snapshot of its plan, whose utilisation caps were found."""
        settings = self.snapshot.settings
        of_templates = {name: dict(caps) for name, caps in settings.template_caps.items()}
        begun = dict(settings.utilisation_caps)
        return replace(self, snapshot=snapshot, begun_from=begun, begun_from_templates=of_templates)

    def before(self) -> "Recording":
        """The same as it was before it was planned, so that a search finds the same caps again."""
        if self.begun_from is None:
            return self
        settings = self.snapshot.settings.capped(self.begun_from, self.begun_from_templates)
        before = versioned(replace(self.snapshot, settings=settings))
        return replace(self, snapshot=before, begun_from=None, begun_from_templates=None)


def content_version(snapshot: Snapshot) -> str:
    """Hash of everything in a snapshot but its version (128 bits of BLAKE2b, hex)."""
    content = msgspec.json.encode(replace(snapshot, version=""), order="sorted")
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def versioned(snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, version=content_version(snapshot))


def encode(recording: Recording) -> bytes:
    return msgspec.json.encode(recording, enc_hook=_plain)


def decode(data: bytes, file: str) -> Recording:
    """Raises RecordingError, with the place in the file, for one that is truncated, edited or of another kind."""
    try:
        recording = msgspec.json.decode(data, type=Recording, dec_hook=_read)
    except msgspec.ValidationError as error:
        raise RecordingError(f"{file}: is not a recorded snapshot: {error}; make one with --save-snapshot") from None
    except msgspec.DecodeError as error:
        if file.endswith((".yaml", ".yml")):
            raise RecordingError(f"{file}: is no recorded snapshot; a spec file is given with -f") from None
        message = f"{file}: is truncated or damaged ({error}); record it again with --save-snapshot"
        raise RecordingError(message) from None
    except ValueError as error:
        raise RecordingError(f"{file}: {error}") from None
    if recording.format != FORMAT:
        raise RecordingError(f"{file}: has format {recording.format!r}; this release reads {FORMAT!r}")
    expected = content_version(recording.snapshot)
    if recording.snapshot.version and recording.snapshot.version != expected:
        raise RecordingError(
            f"{file}: was edited: its content hashes to {expected}, but it says it is {recording.snapshot.version}. "
            "Record it again with --save-snapshot, or remove `version` to plan what it says now"
        )
    return recording


def read_plan(path: Path) -> Plan:
    """The plan in what `medley plan -o json` prints. Raises RecordingError for anything else."""
    try:
        return msgspec.json.decode(_bytes(path), type=Plan)
    except msgspec.ValidationError as error:
        raise RecordingError(f"{path}: is not a plan: {error}; make one with `medley plan -o json`") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RecordingError(f"{path}: is truncated or damaged ({error}); make it again with `medley plan`") from None


def read_recording(path: Path, templates: Path | None) -> Recording:
    """`templates`: file of those of a recording without a recipe. Raises RecordingError, JsonSourceError."""
    recording = decode(_bytes(path), str(path))
    if templates is None:
        return recording
    if recording.recipe is not None:
        raise RecordingError(f"{path}: has its own recipe for templates; leave those of {templates} out")
    listed = read_json_source(templates)
    return replace(recording, recipe=Recipe((ListedRecipe(listed.classes, listed.templates),)))


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RecordingError(f"{path}: cannot be read: {error.strerror}") from None


def _plain(value: Any) -> Any:
    if isinstance(value, Recipe):
        return {kind_of(source): source for source in value.sources}
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise NotImplementedError(f"{type(value).__name__} has no JSON form")


def _read(kind: Any, value: Any) -> Any:
    if kind is Recipe:
        if not isinstance(value, dict):
            raise ValueError("a recipe is an object, kind of source → source")
        # Releases before wrote the kinds that a recipe has not, too.
        return Recipe(tuple(_source(name, source) for name, source in value.items() if source is not None))
    dtype = get_args(get_args(kind)[1])[0]
    return np.array(value, dtype=dtype)


def _source(name: str, source: Any) -> SourceRecipe:
    if name not in SOURCE_KINDS:
        raise ValueError(f"no kind of source is called {name!r}; {nearest_name(name, SOURCE_KINDS)}")
    try:
        made: SourceRecipe = msgspec.convert(source, SOURCE_KINDS[name].recipe, dec_hook=_read)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$")
        raise msgspec.ValidationError(f"{what} - at `$.recipe.{name}{place or '`'}") from None
    return made
