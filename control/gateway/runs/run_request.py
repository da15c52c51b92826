"""Requests for runs of workflows: their paths, and the body of one that starts a run."""

import re
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta, Raw, Struct

PREFIX = "/v1/workflows/"
ENDPOINT = "/v1/workflows/{workflow}/runs"
"""What metrics call all of these paths."""
MOST_WAIT_S = 3600.0
_PATH = re.compile(
    re.escape(PREFIX) + r"(?P<workflow>[A-Za-z0-9][A-Za-z0-9._-]{0,62})/runs(?:/(?P<run>[A-Za-z0-9-]{1,64}))?"
)


@dataclass(frozen=True, slots=True)
class RunPath:
    workflow: str
    run: str
    """Empty: the path is that of all runs of the workflow."""


def run_path(path: str) -> RunPath | None:
    """None: it is no path of runs."""
    found = _PATH.fullmatch(path)
    return None if found is None else RunPath(found["workflow"], found["run"] or "")


class RunBody(Struct, kw_only=True, forbid_unknown_fields=True):
    arguments: Raw = Raw(b"{}")
    """An object, by the name of the parameter: the API looks at it."""
    stream: bool | None = None
    wait_s: Annotated[float, Meta(ge=0, le=MOST_WAIT_S)] | None = None
    """Time after which a run is answered as it is then, and goes on; None: as long as a request may take."""
