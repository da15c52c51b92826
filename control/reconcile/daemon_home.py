"""Files of a control plane on disk. A second one that is to take its place needs the same keys."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from agents.channels.keys import KeyPair
from control.reconcile.gateway_keys import GatewayKeys


@dataclass(frozen=True, slots=True)
class DaemonHome:
    """Files below one directory, which only its owner may read."""

    root: Path

    @classmethod
    def below(cls, home: Path, name: str = "control") -> Self:
        root = home / name
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        return cls(root)

    @property
    def table(self) -> Path:
        """The routing table, for gateways to read."""
        return self.root / "routing-table.json"

    @property
    def gateway_key(self) -> Path:
        """Key file by which instances know gateways."""
        return self.root / "gateway.key"

    @property
    def cloud(self) -> Path:
        """Folder of the local cloud: records and logs of its nodes."""
        return self.root / "local-cloud"

    @property
    def nodes(self) -> Path:
        """Folder in which local nodes keep their own files."""
        return self.root / "nodes"

    @property
    def tokenizers(self) -> Path:
        """Tokenizers of models whose weights are on the hub, for gateways to read."""
        return self.root / "tokenizers"

    @property
    def overlay_key(self) -> Path:
        """Secret that all keys of the overlay network follow from."""
        return self.root / "overlay.key"

    @property
    def skypilot(self) -> Path:
        return self.root / "skypilot"

    def gateway_keys(self) -> GatewayKeys:
        """Keys of gateways that are let in. Raises BadKeyError for a damaged file."""
        self.keys("gateway")
        return GatewayKeys(self.gateway_key)

    def keys(self, name: str) -> KeyPair:
        """An identity that stays. Raises BadKeyError for a damaged file."""
        path = self.root / f"{name}.key"
        if not path.exists():
            with suppress(FileExistsError):
                KeyPair.generate().save(path)
        return KeyPair.load(path)
