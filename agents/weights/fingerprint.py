"""What tells weights apart, whatever their model is called and wherever they lie."""

import hashlib
import json

import torch

from agents.weights.checkpoint import Checkpoint
from agents.weights.watched import WatchedCheckpoint


class FingerprintedCheckpoint(WatchedCheckpoint):
    """A checkpoint that hashes what is read of it: its config, then each tensor in the order of reading."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__(checkpoint)
        self._hash = hashlib.blake2b(digest_size=32)
        self._hash.update(json.dumps(checkpoint.config, sort_keys=True, default=str).encode())

    @property
    def fingerprint(self) -> str:
        return self._hash.hexdigest()

    def read(self, name: str) -> torch.Tensor:
        tensor = self._checkpoint.read(name)
        self._hash.update(f"\0{name} {tensor.dtype} {tuple(tensor.shape)}\0".encode())
        self._hash.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
        return tensor
