"""SHA-256 of every stored tensor of a checkpoint, kept beside it.

By tensor and not by file, so that a node that holds some layers can check these without reading the others.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from agents.weights.errors import CorruptWeightsError

SUFFIX = ".tensors.sha256.json"


class ChecksumFile(msgspec.Struct, frozen=True):
    version: int
    sha256: dict[str, str]
    """Stored tensor name → hexadecimal digest of its stored bytes."""


def checksum_path(checkpoint: Path) -> Path:
    """Path of the checksums of a checkpoint (a folder, or one GGUF file)."""
    return checkpoint / f"weights{SUFFIX}" if checkpoint.is_dir() else checkpoint.with_name(checkpoint.name + SUFFIX)


def digest(stored: memoryview) -> str:
    return hashlib.sha256(stored).hexdigest()


def read_checksums(checkpoint: Path) -> dict[str, str]:
    """Digests by stored tensor name; empty where none were recorded. Raises CorruptWeightsError on a damaged file."""
    path = checksum_path(checkpoint)
    if not path.exists():
        return {}
    try:
        recorded = msgspec.json.decode(path.read_bytes(), type=ChecksumFile)
    except msgspec.DecodeError as error:
        raise CorruptWeightsError(path, f"is no list of checksums ({error})") from error
    if recorded.version != 1:
        raise CorruptWeightsError(path, f"has version {recorded.version}, this program reads version 1")
    return recorded.sha256


def write_checksums(checkpoint: Path, sha256: Mapping[str, str]) -> None:
    """Records digests beside the checkpoint, whole or not at all."""
    path = checksum_path(checkpoint)
    partial = path.with_name(path.name + ".part")
    partial.write_bytes(msgspec.json.encode(ChecksumFile(1, dict(sorted(sha256.items())))))
    partial.replace(path)


def verify(file: Path, name: str, stored: memoryview, checksums: Mapping[str, str]) -> None:
    """Raises CorruptWeightsError when `stored` is not what was recorded for the stored tensor `name`."""
    if not checksums:
        return
    if name not in checksums:
        raise CorruptWeightsError(file, f"tensor {name!r} is not among the recorded checksums")
    if digest(stored) != checksums[name]:
        raise CorruptWeightsError(file, f"tensor {name!r} differs from its recorded checksum")
