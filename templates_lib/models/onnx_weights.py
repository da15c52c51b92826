"""Weights in the form of onnxruntime: a file that holds the whole network, in a folder of its own or in `onnx/`."""

from pathlib import Path

from templates_lib.models.weights_place import NoWeightsError, weights_path


def onnx_files(folder: Path) -> list[Path]:
    """List the ONNX files of a model's folder, by name."""
    return sorted((*folder.glob("*.onnx"), *(folder / "onnx").glob("*.onnx")))


def onnx_bytes(place: str) -> float:
    """Return the bytes of the only ONNX file of weights (`package:NAME`, `path:PATH`); 0 where they are not known:
    weights are elsewhere or not made yet, or the folder has not exactly one such file."""
    try:
        found = onnx_files(weights_path(place))
        return float(found[0].stat().st_size) if len(found) == 1 else 0.0
    except (NoWeightsError, OSError):
        return 0.0
