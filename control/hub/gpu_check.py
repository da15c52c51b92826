"""Whether a node has the GPUs that it was rented with, by the figures of its own driver."""

import re
from collections import Counter
from collections.abc import Sequence

from agents.messages.to_hub import GpuReport
from control.printable import printable
from templates_lib.values.gpu import Gpu
from templates_lib.values.hardware import UnknownHardwareError, gpu, node_config_from_id

_LACKING = 0.03
"""Share of the memory that is planned with which a driver may keep for itself: of a V100 1.4 % is gone."""
_MIB_PER_GIB = 1024


def other_gpus(config: str, reported: Sequence[GpuReport]) -> str:
    """Return how the GPUs that a node reports differ from its node configuration; empty: they do not, it has reported
    none, or nothing is known of the configuration. More than it was rented with do no harm."""
    if not reported:
        return ""
    try:
        node = node_config_from_id(config)
        wanted = gpu(node.gpu)
    except UnknownHardwareError:
        return ""
    if sum(_is(each, wanted) for each in reported) >= node.gpu_count:
        return ""
    counted = Counter((each.name, each.memory_mib) for each in reported)
    found = ", ".join(f"{count} x {printable(name)} with {mib} MiB" for (name, mib), count in counted.items())
    expected = f"{node.gpu_count} x {wanted.name} with {wanted.memory_gib * _MIB_PER_GIB:.0f} MiB"
    return f"it was rented as {config}, {expected}, and its driver reports {found}"


def _is(reported: GpuReport, wanted: Gpu) -> bool:
    enough = wanted.memory_gib * _MIB_PER_GIB * (1 - _LACKING)
    return _names(reported.name, wanted.name.partition("-")[0]) and reported.memory_mib >= enough


def _names(driver_name: str, model: str) -> bool:
    """Tell whether words in a row of the driver's name, such as `NVIDIA A100-SXM4-80GB`, make the name of the model. An
    L40S is no L40."""
    words = [word.lower() for word in re.split(r"[^A-Za-z0-9]+", driver_name) if word]
    rows = ("".join(words[begin:end]) for begin in range(len(words)) for end in range(begin + 1, len(words) + 1))
    return model.lower() in rows
