"""Batches of templates made of found placements: ids, records and capacities."""

from collections.abc import Iterable, Iterator
from itertools import pairwise

import msgspec
import numpy as np
from numpy.typing import NDArray

from templates_lib.placement_solver.found import FoundPlacements
from templates_lib.ports.source import TemplateBatch
from templates_lib.sources.enumeration import NodeSets
from templates_lib.sources.pipeline_record import (
    ClassCertificate,
    NodesFields,
    PipelineRecord,
    StageFields,
    pipeline_placement,
    pipeline_template_id,
)
from templates_lib.values.throughput_table import StageRole, ThroughputTable

CELL_FIELDS = ("tp", "dp", "pp", "ep", "batch_cap", "chunk_tokens", "kv_blocks")


def pipeline_batch(
    found: FoundPlacements,
    sets: NodeSets,
    table: ThroughputTable,
    certificate: ClassCertificate,
    class_index: int,
    engine_index: int,
) -> TemplateBatch:
    """The batch of one work class and engine: unit `certificate.work_class`, class `class_index` and engine
    `engine_index` of its source."""
    nodes = sets.counts(found.rows)
    encode = msgspec.msgpack.Encoder().encode
    ids, records = [], []
    kept = zip(_nodes_by_config(found, nodes, table), found.units_per_s.tolist(), _stages(found, table), strict=True)
    for held, units_per_s, stages in kept:
        ids.append(pipeline_template_id(certificate.software, held, pipeline_placement(stages)).encode())
        records.append(encode(PipelineRecord(certificate, units_per_s, stages)))
    each = np.arange(len(ids), dtype=np.int32)
    return TemplateBatch(
        unit=certificate.work_class,
        sets=sets.size,
        templates=found.possible,
        ids=np.array(ids, dtype="S32"),
        nodes=nodes,
        point_template=each,
        entry_point=each,
        entry_class=np.full(len(ids), class_index, dtype=np.int16),
        entry_units_per_s=found.units_per_s,
        template_engine=np.full(len(ids), engine_index, dtype=np.int16),
        records=tuple(records),
    )


def joined_batch(parts: Iterable[TemplateBatch]) -> TemplateBatch:
    """The batch of a unit whose templates are of several engines, in their order: of a node set, one of them makes the
    templates of a single node, and all that can those of several."""
    first, *others = parts
    for other in others:
        templates, points = np.int32(len(first.ids)), np.int32(len(first.point_template))
        first = TemplateBatch(
            unit=first.unit,
            sets=max(first.sets, other.sets),  # all of them look at the same sets, as far as they go
            templates=max(first.templates, other.templates),
            ids=np.concatenate([first.ids, other.ids]),
            nodes=np.concatenate([first.nodes, other.nodes]),
            point_template=np.concatenate([first.point_template, other.point_template + templates]),
            entry_point=np.concatenate([first.entry_point, other.entry_point + points]),
            entry_class=np.concatenate([first.entry_class, other.entry_class]),
            entry_units_per_s=np.concatenate([first.entry_units_per_s, other.entry_units_per_s]),
            template_engine=np.concatenate([first.template_engine, other.template_engine]),
            records=(*first.records, *other.records),
        )
    return first


def _nodes_by_config(
    found: FoundPlacements, nodes: NDArray[np.uint8], table: ThroughputTable
) -> Iterator[dict[str, int]]:
    template, config = np.nonzero(nodes)
    starts = np.searchsorted(template, np.arange(len(found.rows) + 1)).tolist()
    pairs = [(table.configs[c], n) for c, n in zip(config.tolist(), nodes[template, config].tolist(), strict=True)]
    for first, end in pairwise(starts):
        yield dict(pairs[first:end])


def _stages(found: FoundPlacements, table: ThroughputTable) -> Iterator[list[StageFields]]:
    """Yield the stages of each template. A node's weight is its share of its stage's T̂."""
    depth = found.stages[found.share_template]
    role = np.where(found.share_stage == 0, StageRole.FIRST, StageRole.MIDDLE)
    role = np.where(found.share_stage == depth - 1, StageRole.LAST, role)
    role = np.where(depth == 1, StageRole.ONLY, role)
    cell = (role, found.share_budget, found.share_config, found.share_layers - 1)
    units = table.units_per_s[cell]
    of_stage = np.zeros((len(found.rows), int(found.stages.max(initial=1))))
    np.add.at(of_stage, (found.share_template, found.share_stage), units * found.share_nodes)
    weight = units / of_stage[found.share_template, found.share_stage]
    columns = [getattr(table, name)[cell].tolist() for name in CELL_FIELDS]
    configs = [table.configs[c] for c in found.share_config.tolist()]
    shares: list[NodesFields] = list(zip(configs, found.share_nodes.tolist(), weight.tolist(), *columns, strict=True))
    # A stage begins where the template or the stage changes.
    changes = np.flatnonzero((np.diff(found.share_template) != 0) | (np.diff(found.share_stage) != 0)) + 1
    bounds = [0, *changes.tolist(), len(shares)] if shares else []
    layers = found.share_layers.tolist()
    stages: list[StageFields] = [(layers[begin], shares[begin:end]) for begin, end in pairwise(bounds)]
    at = 0
    for count in found.stages.tolist():
        yield stages[at : at + count]
        at += count
