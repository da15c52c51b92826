"""Which measured rows are fitted and which are held out: decided by the row itself, so that every tool agrees."""

import hashlib
from collections.abc import Mapping

HELD_OUT_OF_TEN = 3
IGNORED = ("latency", "version", "device", "ms_per_layer", "nccl")


def is_held_out(row: Mapping[str, str]) -> bool:
    """True for three rows in ten, by a fixed hash of the row's configuration.

    An end-to-end measurement is known by its two figures: the sources list some of them several times under other
    names, which must not fall on both sides. A kernel's row is known by its configuration.
    """
    if row.get("silicon_ttft_ms"):
        return _tenth(f"{row['silicon_ttft_ms']}/{row.get('silicon_tpot_ms')}") < HELD_OUT_OF_TEN
    return _tenth(repr(sorted((k, v) for k, v in row.items() if k not in IGNORED and v))) < HELD_OUT_OF_TEN


def group_is_held_out(group: tuple[str, ...]) -> bool:
    """The same for whole groups of rows, such as all batches of one deployment."""
    return _tenth(repr(group)) < HELD_OUT_OF_TEN


def _tenth(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") % 10
