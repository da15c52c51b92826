"""Name of the processor that this runs on."""

import platform
from functools import cache
from pathlib import Path


@cache
def processor_name() -> str:
    """Name the processor as the system does; its architecture where it has no name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
