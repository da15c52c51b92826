"""Sources of a model's weights for an agent: a file or folder on its machine."""

from pathlib import Path

from agents.weights.checksums import digest, write_checksums
from agents.weights.ctranslate2_checkpoint import MODEL, Ctranslate2Checkpoint
from agents.weights.errors import MissingWeightsError
from agents.weights.gguf_checkpoint import GgufCheckpoint
from agents.weights.onnx_checkpoint import SUFFIX, OnnxCheckpoint
from agents.weights.safetensors_checkpoint import CONFIG, SafetensorsCheckpoint

StoredCheckpoint = SafetensorsCheckpoint | GgufCheckpoint | Ctranslate2Checkpoint | OnnxCheckpoint


def open_checkpoint(path: Path) -> StoredCheckpoint:
    """The checkpoint at `path`: a GGUF or ONNX file, a folder with a GGUF file, one with config.json and safetensors,
    or one with a model of CTranslate2."""
    if path.is_file():
        return OnnxCheckpoint(path) if path.suffix == SUFFIX else GgufCheckpoint(path)
    if (path / MODEL).is_file():
        return Ctranslate2Checkpoint(path)
    if (path / CONFIG).is_file():
        return SafetensorsCheckpoint(path)
    files = sorted(path.glob("*.gguf"))
    if len(files) != 1:
        found = ", ".join(file.name for file in files) or "none"
        raise MissingWeightsError(f"{path} has no {CONFIG} and not exactly one GGUF file (found: {found})")
    return GgufCheckpoint(files[0])


def record_checksums(path: Path) -> int:
    """Hash every stored tensor of a complete, trusted checkpoint and keep the digests beside it; return their number.

    Run once where weights arrive; from then on every read is checked.
    """
    checkpoint = open_checkpoint(path)
    digests = {name: digest(checkpoint.stored(name)) for name in checkpoint.stored_names}
    write_checksums(checkpoint.path, digests)
    return len(digests)
