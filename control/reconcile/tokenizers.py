"""Tokenizers of models for gateways: with the weights, or next to the routing table."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

from control.back_off import BackOff
from control.fleet.effects import Effects
from templates_lib.models.hub_weights import PREFIX, fetch_text, is_on_hub
from templates_lib.models.weights_place import NoWeightsError, weights_path


class AwaitedError(LookupError):
    """Raised while the tokenizer is being fetched."""


def tokenizer_here(weights: str) -> str:
    """Path of a GGUF file, or of a directory with tokenizer.json. Raises NoWeightsError."""
    folder = weights_path(weights)
    return str(next(iter(sorted(folder.glob("*.gguf"))), folder) if folder.is_dir() else folder)


class Tokenizers:
    """Paths of models' tokenizers; those of weights on the hub are fetched beside the loop, once. Gateways read them as
    they read the routing table, and need no way to the hub. Called from one thread."""

    def __init__(self, folder: Path, effects: Effects, monotonic: Callable[[], float] = time.monotonic) -> None:
        """`folder`: is made; gateways can read it."""
        self._folder = folder
        self._effects = effects
        self._monotonic = monotonic
        self._failed: dict[str, str] = {}
        """Weights → why."""
        self._back_off = BackOff()

    def __call__(self, weights: str) -> str:
        """Return the place as `tokenizer_here` does. Raises AwaitedError too; after a failure, which it raises, it is
        tried again, less and less often."""
        if not is_on_hub(weights):
            return tokenizer_here(weights)
        kept = self._folder / quote(weights.removeprefix(PREFIX), safe="")
        if not kept.is_dir() and not self._back_off.wait_s(weights, self._monotonic()):
            self._effects.begin(f"fetch the tokenizer of {weights}", lambda: self._fetch(weights, kept))
        if kept.is_dir():
            return str(kept)
        if weights in self._failed:
            raise NoWeightsError(self._failed[weights])
        raise AwaitedError(f"the tokenizer of {weights} is being fetched")

    def _fetch(self, weights: str, kept: Path) -> None:
        try:
            files = fetch_text(weights)
        except NoWeightsError as error:
            self._back_off.failed(weights, self._monotonic())
            self._failed[weights] = str(error)
            return
        self._folder.mkdir(exist_ok=True, mode=0o700)
        with TemporaryDirectory(dir=self._folder) as work:
            whole = Path(work, "whole")
            whole.mkdir()
            for file in files:
                copied = whole / file.relative_to(files[0].parent)
                copied.parent.mkdir(exist_ok=True)
                shutil.copyfile(file, copied)
            os.replace(whole, kept)
        self._failed.pop(weights, None)
        self._back_off.worked(weights)
