"""The stored form of a pipeline template: all that makes it a `ServingTemplate` with its `Capacity`, in few bytes."""

from typing import Any

import msgspec

from templates_lib.values.placement import PipelinePlacement, Placement, Stage
from templates_lib.values.template import Capacity, OperatingPoint, ServingTemplate, Software, template_id

KIND = "pipeline"
VERSION = 1

NodesFields = tuple[str, int, float, int, int, int, int, int, int, int]
"""The fields of `StageNodes`, in order."""
StageFields = tuple[int, list[NodesFields]]
"""Layers and nodes of a stage."""

NODES_FIELDS = ("config", "count", "weight", "tp", "dp", "pp", "ep", "batch_cap", "chunk_tokens", "kv_blocks")


class ClassCertificate(msgspec.Struct, array_like=True, frozen=True):
    """Values that all templates of one work class share."""

    software: Software
    work_class: str
    shape_id: str
    slo_ms: float
    percentile: float
    cost_model_fingerprint: str
    queueing: bool = False
    """True where the capacity allows for waiting (`Slo.queueing`); records older than the field are without."""

    def is_tighter_than(self, other: "ClassCertificate") -> bool:
        """The same but for an objective that is no looser."""
        return self.slo_ms <= other.slo_ms and msgspec.structs.replace(self, slo_ms=other.slo_ms) == other


class PipelineRecord(msgspec.Struct, array_like=True, frozen=True):
    """Self-contained, so that a template that runs can be read when no model of its name is served any more."""

    certificate: ClassCertificate
    units_per_s: float
    stages: list[StageFields]

    def placed(self) -> tuple[Stage, ...]:
        """Read the stages of the placement."""
        return msgspec.convert(pipeline_placement(self.stages).payload, PipelinePlacement).stages


def pipeline_placement(stages: list[StageFields]) -> Placement:
    """The placement whose payload is a `PipelinePlacement` as plain values."""
    payload: list[dict[str, Any]] = []
    first_layer, last = 0, len(stages) - 1
    for number, (layers, nodes) in enumerate(stages):
        payload.append(
            {
                "first_layer": first_layer,
                "layers": layers,
                "first": number == 0,
                "last": number == last,
                "nodes": [dict(zip(NODES_FIELDS, fields, strict=True)) for fields in nodes],
            }
        )
        first_layer += layers
    return Placement(KIND, VERSION, {"stages": payload})


def pipeline_template_id(software: Software, nodes: dict[str, int], placement: Placement) -> str:
    s = software
    return template_id(s.model, s.model_revision, s.dtype, s.engine, s.dispatch, nodes, placement, s.served_as)


def read_record(record: bytes, nodes: dict[str, int]) -> tuple[ServingTemplate, Capacity]:
    """The template of `nodes` {configuration: count} in `record`. Raises msgspec.DecodeError for other bytes."""
    found = msgspec.msgpack.decode(record, type=PipelineRecord)
    certificate, software = found.certificate, found.certificate.software
    placement = pipeline_placement(found.stages)
    template = ServingTemplate(
        pipeline_template_id(software, nodes, placement),
        software.model,
        software.model_revision,
        software.dtype,
        software.engine,
        software.dispatch,
        nodes,
        placement,
        software.served_as,
    )
    capacity = Capacity(
        template.id,
        (OperatingPoint({certificate.work_class: found.units_per_s}),),
        certificate.shape_id,
        certificate.slo_ms,
        certificate.percentile,
        certificate.cost_model_fingerprint,
        certificate.queueing,
    )
    return template, capacity
