"""The error for a name that is not stored, with the nearest that is."""

import difflib
from collections.abc import Collection

from control.db.errors import NotStoredError

COMMANDS = {
    "plan": " (`medley plans list`)",
    "library": " (`medley templates list`)",
    "token": " (`medley token list`)",
    "fleet": " (`medley fleets list`)",
    "project": " (`medley projects list`)",
    "webhook": " (`medley alerts webhook list`)",
}
"""Commands that show people the names of what is stored."""


def not_stored(what: str, name: str, known: Collection[str]) -> NotStoredError:
    """Ids are hashes: where none begins with `name` or is near, to list them would help nobody."""
    begun = [k for k in known if name and k.startswith(name)]
    near = begun or difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    hint = f"the nearest is {near[0]!r}" if near else f"{len(known)} others are" if known else "none is"
    command = COMMANDS.get(what, "")
    return NotStoredError(f"{what} {name!r} is not stored; {hint}{command}")
