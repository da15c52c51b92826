"""Adapters of the clouds that fleets use, made when they are first needed: SkyPilot alone is hundreds of MB."""

import threading
from collections.abc import Callable, Iterator, Mapping

from control.cloud.port import Cloud
from templates_lib.values.nearest_name import nearest_name


class UnknownCloudError(ValueError):
    """Raised for a cloud without adapter."""


class Clouds(Mapping[str, Cloud]):
    """Adapters of the clouds that were needed so far, by name. Thread-safe: it only grows."""

    def __init__(self, makers: Mapping[str, Callable[[], Cloud]]) -> None:
        self._makers = dict(makers)
        self._made: dict[str, Cloud] = {}
        self._turn = threading.Lock()

    def need(self, name: str) -> Cloud:
        """Raises UnknownCloudError, and what its maker raises."""
        with self._turn:
            if name not in self._makers:
                raise UnknownCloudError(f"nodes cannot be rented at {name!r}; {nearest_name(name, self._makers)}")
            if name not in self._made:
                self._made = {**self._made, name: self._makers[name]()}
            return self._made[name]

    def has(self, name: str) -> bool:
        """Tell whether nodes can be rented there."""
        return name in self._makers

    def __getitem__(self, name: str) -> Cloud:
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)
