"""Which clouds can be used, and why the others cannot."""

import io
import re
from collections.abc import Sequence

from sky.client import sdk

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_REASONS_CHARS = 600


def check(clouds: Sequence[str]) -> dict[str, str]:
    """Cloud → empty, or the reason, as SkyPilot tells it."""
    log = io.StringIO()
    enabled = sdk.stream_and_get(sdk.check(tuple(clouds), verbose=False), output_stream=log)
    usable = {
        cloud.lower()
        for workspace in enabled.values()
        for cloud, abilities in workspace.items()
        if any(str(getattr(ability, "value", ability)) == "compute" for ability in abilities)
    }
    said = _COLOUR.sub("", log.getvalue())
    return {cloud: "" if cloud in usable else _reason(said, cloud) for cloud in clouds}


def _reason(said: str, cloud: str) -> str:
    """From the lines under the cloud's name up to the next cloud."""
    lines = iter(said.splitlines())
    found: list[str] = []
    for text in lines:
        if re.match(rf"\s*{cloud}: disabled", text, re.IGNORECASE):
            break
    for text in lines:
        if re.match(r"\s*\w[\w ]*: (disabled|enabled)", text) or not text.strip():
            break
        found.append(text.strip())
    return " ".join(found)[:_REASONS_CHARS] or "SkyPilot finds no credentials that work for it; see `sky check`"
