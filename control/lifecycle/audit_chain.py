"""The chain of hashes over events: each stands for its event and for all that were sealed before it."""

import hashlib

import msgspec

from control.lifecycle.fleet_event import PastEvent

START = bytes(32)
"""What the first event follows."""


def digest(before: bytes, event: PastEvent) -> bytes:
    """SHA-256 of the digest before it and of all that is stored of the event, in one form whatever wrote it."""
    return hashlib.sha256(before + msgspec.json.encode(event, order="sorted")).digest()


def raw_digest(before: bytes, columns: tuple[str | bytes | int, ...]) -> bytes:
    """SHA-256 of the digest before it and of the columns of a row that cannot be read as an event. A list, where
    `digest` hashes an object: no row of the one form has the digest of one of the other."""
    return hashlib.sha256(before + msgspec.json.encode(columns)).digest()
