"""SkyPilot's state for one control plane, and the environment by which its processes find it.

SkyPilot's own settings and the clouds' credentials stay where they are: `~/.sky/config.yaml`, `~/.aws`, and so on.
"""

import hashlib
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

import yaml

from templates_lib.values.clouds import CLOUDS

_USER_HASH_BYTES = 4
"""SkyPilot's own length: it ends every name on a cloud, of which GCP allows 35 letters."""


@dataclass(frozen=True, slots=True)
class SkyPilotHome:
    path: Path
    """Absolute. For its owner's eyes only: what nodes are started with passes through it."""
    owner: str
    """Whose nodes: the value of the tag `medley-owner`."""

    @property
    def user_hash(self) -> str:
        """Ends the name of every machine that SkyPilot creates for this owner, whatever host it runs on."""
        return hashlib.blake2b(self.owner.encode(), digest_size=_USER_HASH_BYTES).hexdigest()

    @property
    def server_record(self) -> Path:
        return self.path / "server.json"

    @property
    def server_log(self) -> Path:
        return self.path / "server.log"

    @property
    def sdk_log(self) -> Path:
        return self.path / "sdk.log"

    @property
    def lock(self) -> Path:
        return self.path / "lock"

    @property
    def launches(self) -> Path:
        """Folder of the files sent with launches that are under way."""
        return self.path / "launches"

    @property
    def config(self) -> Path:
        return self.path / "config.yaml"

    def create(self) -> None:
        """Make the directory, and SkyPilot's settings in it: the user's own, but that no credentials go to nodes."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        users = self.environment(0)
        theirs = Path(
            os.environ.get("SKYPILOT_GLOBAL_CONFIG") or f"{users.get('HOME', '~')}/.sky/config.yaml"
        ).expanduser()
        settings = (yaml.safe_load(theirs.read_text(encoding="utf-8")) or {}) if theirs.is_file() else {}
        for cloud in (name for name, kind in CLOUDS.items() if kind.remote_identity):
            settings[cloud] = {"remote_identity": "NO_UPLOAD"} | (settings.get(cloud) or {})
        new = self.path / f"config.yaml.{secrets.token_hex(8)}.new"  # threads of one process come at once
        new.write_text(yaml.safe_dump(settings), encoding="utf-8")
        new.replace(self.config)

    def environment(self, port: int) -> dict[str, str]:
        """Return the environment of SkyPilot's server and SDK: ours, without what is Medley's alone (its database's
        password)."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("MEDLEY_")}
        return {
            **inherited,
            "SKY_RUNTIME_DIR": str(self.path),
            "SKYPILOT_API_SERVER_LOCAL_PORT": str(port),
            "SKYPILOT_API_SERVER_ENDPOINT": f"http://127.0.0.1:{port}",
            "SKYPILOT_USER_ID": self.user_hash,
            "SKYPILOT_USER": "medley",
            "SKYPILOT_GLOBAL_CONFIG": str(self.config),
            "SKYPILOT_DISABLE_USAGE_COLLECTION": "1",
        }
