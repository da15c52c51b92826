"""Templates of any-to-any models: executors on the GPUs of one node, their stored form, and what they sustain."""

import msgspec

from templates_lib.values.placement import Placement
from templates_lib.values.template import Capacity, OperatingPoint, ServingTemplate, Software, template_id

EXECUTOR, CELL = "executor", "cell"
"""Kinds of sources and placements: one deployment option on a whole node, and several beside each other."""
VERSION = 1
DISPATCH = "request-static-v1"
"""Requests take paths by the shares that were planned (Cornserve, section 5.3)."""


class GpuExecutor(msgspec.Struct, frozen=True):
    """Replicas of a deployment option on a node."""

    components: tuple[str, ...]
    gpus: int
    """GPUs of each replica, which share every component between them."""
    devices: tuple[tuple[int, ...], ...]
    """The node's devices that each replica has."""
    together: dict[str, int]
    """`COMPONENT/TYPE` → requests that a replica serves at once, at the operating points; a type that is not served in
    time is not there."""


class GraphRecord(msgspec.Struct, array_like=True, frozen=True):
    """All that makes a template with its capacity."""

    kind: str
    software: Software
    shape_id: str
    cost_model_fingerprint: str
    executors: tuple[GpuExecutor, ...]
    points: tuple[dict[str, float], ...]

    @property
    def placement(self) -> Placement:
        payload = {"executors": [msgspec.to_builtins(each) for each in self.executors]}
        return Placement(self.kind, VERSION, payload)

    def template(self, nodes: dict[str, int]) -> ServingTemplate:
        s = self.software
        parts = (s.model, s.model_revision, s.dtype, s.engine, s.dispatch, nodes, self.placement, s.served_as)
        return ServingTemplate(template_id(*parts), *parts)


def read_graph_record(record: bytes, nodes: dict[str, int]) -> tuple[ServingTemplate, Capacity]:
    """The template of `nodes` {configuration: count} in `record`. Raises msgspec.DecodeError for other bytes.

    It has no objective: how many requests are served at once is bounded by those of the request types, and nothing is
    certified of requests that wait."""
    found = msgspec.msgpack.decode(record, type=GraphRecord)
    template, points = found.template(nodes), tuple(OperatingPoint(dict(point)) for point in found.points)
    return template, Capacity(template.id, points, found.shape_id, 0.0, 0.0, found.cost_model_fingerprint)
