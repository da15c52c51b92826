"""Keys by which instances and the control plane know gateways, and how one takes the place of another."""

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from agents.channels.errors import BadKeyError
from agents.channels.keys import KeyPair

FIRST = "gateway"
"""Name of the key that an installation begins with."""


class GatewayKeys(Mapping[str, str]):
    """Public keys that are let in, and their names: of the key that gateways have, and of those that they had until
    they are revoked. It is what the file says whenever it is looked at: one process may change it while others serve by
    it."""

    def __init__(self, key: Path) -> None:
        """`key`: file of the gateways' own key pair, which is there. Raises BadKeyError."""
        self._key = key
        self._file = key.with_name("gateway-keys.json")
        self._seen = self._stamps()
        self._names = self._read()

    def __getitem__(self, key: str) -> str:
        return self._now()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())

    @property
    def current(self) -> str:
        """Public half of the key that gateways have. Raises BadKeyError."""
        return KeyPair.load(self._key).public

    def rotate(self) -> str:
        """Give gateways another key, and let in the one before too; return the new one's name. Raises BadKeyError."""
        names = self._read()
        numbers = (int(found[1]) for name in names.values() if (found := re.fullmatch(rf"{FIRST}-(\d+)", name)))
        keys, name = KeyPair.generate(), f"{FIRST}-{max(numbers, default=1) + 1}"
        # Who is to let it in hears of it first; a gateway goes on with the one before until everybody does.
        self._write({**names, keys.public: name})
        new = self._key.with_name(f".{self._key.name}.new")
        new.unlink(missing_ok=True)
        keys.save(new)
        new.replace(self._key)
        return name

    def revoke(self, name: str) -> None:
        """Let a key in no more. Raises ValueError for the one that gateways have, and for an unknown name."""
        names = self._read()
        if name not in names.values():
            raise ValueError(f"no key of gateways is called {name!r}; there are {', '.join(sorted(names.values()))}")
        if names.get(self.current) == name:
            raise ValueError(f"{name} is the key that gateways have: rotate it first (`medley keys rotate`)")
        self._write({key: each for key, each in names.items() if each != name})

    def _now(self) -> dict[str, str]:
        stamps = self._stamps()
        if stamps != self._seen:
            self._seen = stamps
            with contextlib.suppress(BadKeyError):  # a file that somebody damaged changes nothing
                self._names = self._read()
        return self._names

    def _read(self) -> dict[str, str]:
        """Raises BadKeyError."""
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=dict[str, str])
        except FileNotFoundError:
            return {self.current: FIRST}
        except (OSError, msgspec.MsgspecError) as error:
            raise BadKeyError(f"keys of gateways {self._file}: {error}") from error

    def _write(self, names: dict[str, str]) -> None:
        new = self._file.with_name(f".{self._file.name}.new")
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(names), indent=2))
        new.replace(self._file)

    def _stamps(self) -> tuple[tuple[int, int], ...]:
        found = []
        for path in (self._file, self._key):
            try:
                stat = path.stat()
                found.append((stat.st_mtime_ns, stat.st_ino))
            except OSError:
                found.append((0, 0))
        return tuple(found)
