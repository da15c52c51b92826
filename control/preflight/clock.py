"""The clock of the control plane's machine, against the time that the hub of its models says it is.

Clouds refuse what is signed minutes before or after their own time, and most say so in the words that they have for
wrong credentials (AWS: `AuthFailure`, `SignatureDoesNotMatch`).
"""

import os
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from control.preflight.finding import Finding, Status
from control.preflight.planned import Planned
from templates_lib.models.hub_weights import ENDPOINT_VARIABLE, is_on_hub

NAME, SUBJECT = "clock.host", "this machine"
MOST_OFF_S = 300.0
"""Seconds from which AWS's token service refuses a signature; its other services allow three times as many."""
_PATIENCE_S = 10.0
_HUB = "https://huggingface.co"


def of_clock(planned: Planned) -> Iterator[Finding]:
    """Yield what is found, where weights are on the hub: it is asked anyway, and each of its answers has its time."""
    if not any(map(is_on_hub, planned.world.weights.values())):
        return
    hub = os.environ.get(ENDPOINT_VARIABLE) or _HUB
    try:
        ahead_s = time.time() - _time_at(hub)
    except (HTTPException, OSError, ValueError) as error:
        yield Finding(NAME, SUBJECT, Status.UNKNOWN, f"{hub} does not say what time it is: {error}")
        return
    if abs(ahead_s) <= MOST_OFF_S:
        yield Finding(NAME, SUBJECT, Status.PASS, f"it shows the time that {hub} has")
        return
    what = (
        f"its clock is {abs(ahead_s) / 60:.0f} minutes {'ahead of' if ahead_s > 0 else 'behind'} that of {hub}: clouds "
        "refuse what it signs as if credentials were wrong; set it (`timedatectl set-ntp true`)"
    )
    yield Finding(NAME, SUBJECT, Status.FAIL, what)


def _time_at(hub: str) -> float:
    """Return the time that a server says it is, in seconds since 1970, to the second. Raises HTTPException, OSError,
    ValueError."""
    if not hub.startswith(("https://", "http://")):
        raise ValueError(f"{ENDPOINT_VARIABLE} is no address of the web")
    try:
        asked = Request(hub, method="HEAD")  # noqa: S310 - looked at above
        with urlopen(asked, timeout=_PATIENCE_S) as answer:  # noqa: S310
            said = answer.headers["Date"]
    except HTTPError as refusal:  # it tells the time with any answer
        said = refusal.headers["Date"]
        refusal.close()
    if said is None:
        raise ValueError("its answer has no date")
    return parsedate_to_datetime(said).timestamp()
