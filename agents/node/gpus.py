"""The GPUs of this machine, as NVIDIA's driver knows them."""

import asyncio
import logging

from agents.messages.to_hub import MAX_GPUS, GpuReport

_log = logging.getLogger(__name__)

_COMMAND = ("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits")
_DRIVER_COMMAND = ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
_PATIENCE_S = 30.0
"""A driver that was not used yet starts when it is asked."""


async def read_gpus() -> tuple[GpuReport, ...]:
    """Return them in the driver's order; none where there is no such tool, or it does not answer as documented: what
    is wrong then shows when an engine starts."""
    return _read(await _told(_COMMAND))


async def read_driver() -> str:
    """Return the driver's release; empty where none answers."""
    first, *_ = [*(await _told(_DRIVER_COMMAND)).split(), ""]
    return first[:64]


async def _told(command: tuple[str, ...]) -> str:
    """Return what the tool prints; empty where it is not there, or fails, which the log says."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
    except OSError as error:
        _log.warning("cannot ask for GPUs: %s", error)
        return ""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            told, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        _log.warning("nvidia-smi does not answer within %g s", _PATIENCE_S)
        return ""
    text = told.decode(errors="replace")
    if process.returncode:
        _log.warning("nvidia-smi fails: %s", text.strip()[:500])
        return ""
    return text


def _read(text: str) -> tuple[GpuReport, ...]:
    found = []
    for line in text.splitlines()[:MAX_GPUS]:
        name, _, memory = line.rpartition(",")
        if not name.strip() or not memory.strip().isdecimal():  # of a GPU that has fallen off its bus, say
            _log.warning("nvidia-smi says of a GPU: %s", line[:200])
            continue
        found.append(GpuReport(name.strip()[:256], int(memory)))
    return tuple(found)
