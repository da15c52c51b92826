"""The registry of placement kinds: how to read what the nodes of a template run.

The hub, the simulator, the API (hence the console) and the command line ask here. Allocator, checker and diff read no
placement.
"""

from collections.abc import Callable

import msgspec

from templates_lib.sources.pipeline_record import KIND as PIPELINE
from templates_lib.values.placement import PipelinePlacement, Placement, Stage


def _pipeline_stages(placement: Placement) -> tuple[Stage, ...]:
    return msgspec.convert(placement.payload, PipelinePlacement).stages


PLACEMENT_KINDS: dict[str, Callable[[Placement], tuple[Stage, ...]]] = {PIPELINE: _pipeline_stages}
"""Kind → its placement as the stages that nodes run. Templates of any other kind are planned, but neither run nor
simulated."""


def stages_of(placement: Placement | None) -> tuple[Stage, ...] | None:
    """What its nodes run. None: there is none, or its kind is not registered."""
    read = PLACEMENT_KINDS.get(placement.kind) if placement else None
    return read(placement) if placement and read else None
