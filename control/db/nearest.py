"""The error for a name that is not stored, with the nearest that is."""

import difflib
from collections.abc import Collection

from control.db.errors import NotStoredError


def not_stored(what: str, name: str, known: Collection[str]) -> NotStoredError:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.4) or [k for k in known if name and k.startswith(name)]
    if near:
        return NotStoredError(f"{what} {name!r} is not stored; the nearest is {near[0]!r}")
    return NotStoredError(f"{what} {name!r} is not stored; {len(known)} others are")
