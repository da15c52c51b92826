"""Units of executors for tests."""

from dataclasses import replace
from typing import Any

import msgspec

from templates_lib.sources.graph_record import CELL, GpuExecutor, GraphRecord
from templates_lib.sources.placement_kinds import UNIT
from templates_lib.values.placement import Executor, Placement, Share, Stage, StageNodes, UnitPlacement
from templates_lib.values.template import ServingTemplate, Software, template_id

CONFIG = "small:1/n10"


def executor(name: str, slots: tuple[tuple[int, ...], ...] = ((0,),), **changes: Any) -> Executor:
    """One of engine `echo`, which has a layer for each of its stages."""
    stages = tuple(
        Stage(
            number,
            1,
            number == 0,
            number == len(slots) - 1,
            (StageNodes(CONFIG, len(own), 1.0, 1, 1, 1, 1, 4, 16, 64),),
        )
        for number, own in enumerate(slots)
    )
    return replace(Executor(name, name, "echo", "fp32", stages, slots, Share()), **changes)


TOGETHER = {"language/text-to-text": 8, "vision/image-text-to-text": 2}


def cell_template(engine: str = "echo") -> ServingTemplate:
    """Of app `vl`: two readers on a GPU each, and an executor of both components on two."""
    reading = GpuExecutor(("vision",), 1, ((0,), (1,)), {"vision/image-text-to-text": 3})
    both = GpuExecutor(("vision", "language"), 2, ((2, 3),), TOGETHER)
    software = Software("qwen", "r", "bf16", engine, "request-static-v1", "vl")
    return GraphRecord(CELL, software, "s", "f", (reading, both), ()).template({"A100-80:4/n100": 1})


def unit_template(*executors: Executor, nodes: dict[str, int] | None = None, **changes: Any) -> ServingTemplate:
    placement = Placement(UNIT, 1, msgspec.to_builtins(UnitPlacement(executors)) | changes)
    parts = ("both", "r1", "fp32", "echo", "lockstep-v1", {CONFIG: 1} if nodes is None else nodes, placement)
    return ServingTemplate(template_id(*parts), *parts)
