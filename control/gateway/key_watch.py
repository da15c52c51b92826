"""A gateway's key as a file, which may be replaced while it serves."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from agents.channels.errors import BadKeyError
from agents.channels.keys import KeyPair

_log = logging.getLogger(__name__)


async def watch_key(path: Path, keys: KeyPair, take: Callable[[KeyPair], None], poll_s: float) -> None:
    """Have `take` take every other key that the file holds, until cancelled. `keys`: those in use. A file that cannot
    be read changes nothing."""
    problem = ""
    while True:
        await asyncio.sleep(poll_s)
        try:
            found = await asyncio.to_thread(KeyPair.load, path)
        except BadKeyError as error:
            if str(error) != problem:
                _log.error("%s; the one before stays in use", error)
            problem = str(error)
            continue
        problem = ""
        if found != keys:
            keys = found
            _log.info("this gateway has another key, whose public half is %s", keys.public)
            take(keys)
