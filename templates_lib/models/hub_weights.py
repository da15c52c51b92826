"""Weights of a repository on the Hugging Face hub: what a machine needs of it is fetched once, and checked."""

import hashlib
import json
import logging
import os
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from templates_lib.models.sentence_modules import MODULES, pooling_file
from templates_lib.models.weights_place import NoWeightsError
from templates_lib.values.install_hint import install_hint

PREFIX = "hf:"
ENDPOINT_VARIABLE = "HF_ENDPOINT"
"""Variable with the hub's address, if it is a mirror."""
TOKEN_VARIABLE = "HF_TOKEN"  # noqa: S105
"""Variable with the token for repositories that not everybody may read."""
HOME_VARIABLE = "HF_HOME"
"""Variable with the folder in which the client keeps what it has fetched."""
_PLACE = re.compile(r"hf:([A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95})(?:@([A-Za-z0-9][\w./-]{0,127}))?", re.ASCII)
_CONFIG, _INDEX, _WHOLE = "config.json", "model.safetensors.index.json", "model.safetensors"
_TOKENIZER = "tokenizer.json"
_BESIDE_IT = (
    *("config.json", "tokenizer_config.json", "generation_config.json", "chat_template.jinja"),
    "preprocessor_config.json",
)
_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_AT_ONCE = 4


def is_on_hub(place: str) -> bool:
    return place.startswith(PREFIX)


def fetch_layers(place: str, first_layer: int = 0, layers: int | None = None) -> Path:
    """The folder with config.json, tokenizer.json where there is one, and the safetensors files that have tensors of
    these layers (None: of all) or of none. What is there already is not fetched again.

    Takes as long as the files are large. Raises NoWeightsError, which says what to do.
    """
    repository, config = _Repository.of(place).at_commit()
    files = _files(place, repository.index(), first_layer, layers)
    with ThreadPoolExecutor(_AT_ONCE, "fetch") as pool:
        list(pool.map(repository.fetch, sorted(files)))
    with suppress(NoWeightsError):  # for grammars alone: the model is served without, too
        repository.fetch(_TOKENIZER)
    return config.parent


@dataclass(frozen=True, slots=True)
class HubCheckpoint:
    """A checkpoint on the hub as it is listed there: nothing of its weights was fetched."""

    place: str
    config: Path
    """config.json, fetched."""
    bytes_of: Mapping[str, int]
    """Size of each safetensors file of it, bytes."""
    index: Path | None
    """Which tensor is in which file; None: there is one file."""

    def bytes_for(self, first_layer: int, layers: int) -> int:
        """Return the bytes of the files that a stage of these layers fetches."""
        return sum(self.bytes_of[file] for file in _files(self.place, self.index, first_layer, layers))


def find_checkpoint(place: str) -> HubCheckpoint:
    """Ask the hub for a checkpoint, with the rights of this process. Raises NoWeightsError, which says what to do, for
    one that is not there, may not be read, or has no weights in safetensors."""
    repository, config = _Repository.of(place).at_commit()
    index = repository.index()
    files = sorted(_files(place, index, 0, None))
    with ThreadPoolExecutor(_AT_ONCE, "size") as pool:
        return HubCheckpoint(place, config, dict(zip(files, pool.map(repository.size, files), strict=True)), index)


def fetch_text(place: str) -> tuple[Path, ...]:
    """Fetch tokenizer.json, and what else there is that says how text becomes tokens, pictures numbers, and hidden
    states embeddings: all in the folder of the first, or in one of its folders. Raises NoWeightsError."""
    repository = _Repository.of(place)
    found = [repository.fetch(_TOKENIZER)]
    repository = replace(repository, revision=found[0].parent.name)
    for name in _BESIDE_IT:
        with suppress(_NoFileError):
            found.append(repository.fetch(name))
    with suppress(_NoFileError, ValueError):  # of a list of modules that is none, whoever reads it says so
        found.append(repository.fetch(MODULES))
        pooling = pooling_file(found[-1].read_bytes())
        found += [repository.fetch(pooling)] if pooling else []
    return tuple(found)


class HubAwayError(NoWeightsError):
    """Raised where the hub has not answered, so that nothing is known of what it has."""


class _NoFileError(NoWeightsError):
    """The repository has no such file."""


@dataclass(frozen=True, slots=True)
class _Repository:
    name: str
    """Organisation/name."""
    revision: str | None
    """Branch, tag or commit; None: the default branch as it is when it is fetched."""

    @classmethod
    def of(cls, place: str) -> "_Repository":
        match = _PLACE.fullmatch(place)
        if match is None or ".." in place:
            raise NoWeightsError(f"weights on the hub are named hf:ORG/NAME or hf:ORG/NAME@REVISION, not {place!r}")
        return cls(match[1], match[2])

    def fetch(self, file: str) -> Path:
        """Return the file's path in the hub's own cache. A new file is checked against its SHA-256, where the hub names
        it."""
        try:
            from huggingface_hub import hf_hub_download, try_to_load_from_cache
            from huggingface_hub.utils.tqdm import disable_progress_bars
        except ImportError:
            raise NoWeightsError(f"huggingface-hub is not installed: {install_hint('agent')}") from None
        disable_progress_bars()
        # Addresses of large files are signed: whoever finds one in a log may read the file.
        logging.getLogger("httpx").setLevel(logging.WARNING)
        home = os.environ.get(HOME_VARIABLE)
        at: dict[str, Any] = {"revision": self.revision, "cache_dir": None if home is None else Path(home) / "hub"}
        if self.revision and isinstance(known := try_to_load_from_cache(self.name, file, **at), str):
            return Path(known)
        with self._asking(file, "fetched"):
            found = Path(hf_hub_download(self.name, file, endpoint=os.environ.get(ENDPOINT_VARIABLE), **at))
        self._check(found)
        return found

    def at_commit(self) -> "tuple[_Repository, Path]":
        """Return the repository at the commit that its revision names now, since a branch may move on, and its
        config.json."""
        config = self.fetch(_CONFIG)
        return replace(self, revision=config.parent.name), config

    def index(self) -> Path | None:
        """Return the list of tensors by file; None where all are in one."""
        with suppress(_NoFileError):
            return self.fetch(_INDEX)
        return None

    def size(self, file: str) -> int:
        """Return the bytes of a file that need not be fetched."""
        from huggingface_hub import get_hf_file_metadata, hf_hub_url

        endpoint = os.environ.get(ENDPOINT_VARIABLE) or None
        with self._asking(file, "asked for"):
            found = get_hf_file_metadata(hf_hub_url(self.name, file, revision=self.revision, endpoint=endpoint))
        if found.size is None:
            raise NoWeightsError(f"{self}: the hub does not say how large {file} is")
        return found.size

    @contextmanager
    def _asking(self, file: str, what: str) -> Iterator[None]:
        """Turn what the client raises meanwhile into what to do. `what`: that could not be done with the file."""
        from huggingface_hub.errors import RemoteEntryNotFoundError

        try:
            yield
        except RemoteEntryNotFoundError as error:
            raise _NoFileError(f"{self} has no {file}: models in the layout of transformers can be used") from error
        except Exception as error:  # the client's, HTTP's, the system's: none of them says what to do
            kind = NoWeightsError if _is_an_answer(error) else HubAwayError
            raise kind(f"{self}: {file} cannot be {what}: {_reason(error)}") from error

    def _check(self, file: Path) -> None:
        """The client keeps a large file under its digest, and takes the hub's word for it."""
        blob = file.resolve()
        if not _SHA256.fullmatch(blob.name):
            return
        with blob.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        if digest != blob.name:
            file.unlink()
            blob.unlink()
            raise NoWeightsError(f"{self}: {file.name} was damaged on its way: its SHA-256 is not what the hub says")

    def __str__(self) -> str:
        return PREFIX + self.name + (f"@{self.revision}" if self.revision else "")


def _files(place: str, index: Path | None, first_layer: int, layers: int | None) -> set[str]:
    """Names of the safetensors files with tensors of these layers, or of none. Raises NoWeightsError for an index that
    is none."""
    if index is None:
        return {_WHOLE}
    try:
        return _named(index, first_layer, layers)
    except (ValueError, LookupError, AttributeError, TypeError) as error:
        raise NoWeightsError(f"{place}: {_INDEX} cannot be read: {error}") from error


def _named(index: Path, first_layer: int, layers: int | None) -> set[str]:
    end = None if layers is None else first_layer + layers
    needed = set[str]()
    for tensor, file in json.loads(index.read_bytes())["weight_map"].items():
        if not re.fullmatch(r"[\w.-]+\.safetensors", file):
            raise ValueError(f"{file!r} is no safetensors file next to it")
        layer = _LAYER.search(tensor)
        if layer is None or end is None or first_layer <= int(layer[1]) < end:
            needed.add(file)
    return needed


def _is_an_answer(error: Exception) -> bool:
    """Tell whether the hub has refused; otherwise it may be asked again."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    return isinstance(status, int) and 400 <= status < 500 and status not in (408, 429)


def _reason(error: BaseException) -> str:
    kind = type(error).__name__
    if kind in ("GatedRepoError", "RepositoryNotFoundError"):
        return (
            "there is no such repository, or reading it takes a token: set "
            f"{TOKEN_VARIABLE} where the control plane runs"
        )
    if kind == "RevisionNotFoundError":
        return "there is no such revision"
    # The client tries again over a connection that it has closed: why the first one failed is in its log alone.
    first, hub = _first(error), os.environ.get(ENDPOINT_VARIABLE) or "huggingface.co"
    return f"{hub} cannot be reached" if "client has been closed" in first else first


def _first(error: BaseException) -> str:
    """Text of the first error of a chain: the client tries again, and the last error only says what became of that."""
    while (before := error.__cause__ or error.__context__) is not None:
        error = before
    return f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"
