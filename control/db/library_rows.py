"""Templates as rows: arrays to PostgreSQL's binary COPY format and back, without a Python object per value."""

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from templates_lib.ports.source import TemplateBatch

COPY_TEMPLATE = "COPY template (library_id, id, unit, ordinal, engine, nodes, record) FROM STDIN (FORMAT BINARY)"
COPY_CAPACITY = "COPY capacity (library_id, unit, ordinal, point, class, units_per_s) FROM STDIN (FORMAT BINARY)"
COPY_LIMITED = "COPY capacity (library_id, unit, ordinal, point, class, units_per_s, uses) FROM STDIN (FORMAT BINARY)"
LIMITED_TYPES = ("int4", "int2", "int4", "int2", "int2", "float8", "float8[]")
# PostgreSQL manual, "COPY", section "Binary Format": signature, flags and extension length; each row is a field count
# (int16) and per field its length (int32) and bytes, big-endian; the trailer is a field count of -1.
_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = b"\xff\xff"
_ROWS_PER_CHUNK = 20_000

# Rows packed by the server as the dtypes below read them. COPY TO sends a message a row, which takes ten times as long.
SELECT_TEMPLATES = """
SELECT string_agg(uuid_send(id) || int2send(unit) || int4send(ordinal) || int2send(engine) || nodes, ''::bytea)
FROM template WHERE library_id = %(library)s AND (%(ids)s::uuid[] IS NULL OR id = ANY(%(ids)s::uuid[]))
GROUP BY unit
"""
SELECT_CAPACITY = """
SELECT string_agg(
  int2send(unit) || int4send(ordinal) || int2send(point) || int2send(class) || float8send(units_per_s), ''::bytea)
FROM capacity WHERE library_id = %(library)s
AND (%(ids)s::uuid[] IS NULL OR (unit, ordinal) IN
     (SELECT unit, ordinal FROM template WHERE library_id = %(library)s AND id = ANY(%(ids)s::uuid[])))
GROUP BY unit
"""
SELECT_LIMITS = """
SELECT t.id, c.class, c.uses FROM capacity c JOIN template t USING (library_id, unit, ordinal)
WHERE library_id = %(library)s AND c.uses IS NOT NULL
AND (%(ids)s::uuid[] IS NULL OR t.id = ANY(%(ids)s::uuid[])) ORDER BY c.unit, c.ordinal, c.class
"""


def capacity_row_dtype() -> np.dtype[np.void]:
    return np.dtype([("unit", ">i2"), ("ordinal", ">i4"), ("point", ">i2"), ("class", ">i2"), ("units_per_s", ">f8")])


def template_row_dtype(config_count: int) -> np.dtype[np.void]:
    return np.dtype(
        [("id", "V16"), ("unit", ">i2"), ("ordinal", ">i4"), ("engine", ">i2"), ("nodes", "u1", (config_count,))]
    )


def hex_ids(ids: NDArray[np.void]) -> NDArray[np.bytes_]:
    """(n,) V16 to S32."""
    return np.frombuffer(np.ascontiguousarray(ids).tobytes().hex().encode(), dtype="S32")


def template_copy(library_id: int, unit: int, batch: TemplateBatch) -> Iterator[bytes]:
    """The input of COPY_TEMPLATE, in chunks."""
    size, configs = batch.nodes.shape
    rows = _copy_rows(size, (">i4", "V16", ">i2", ">i4", ">i2", f"V{configs}"), variable_tail=True)
    rows["v0"], rows["v2"], rows["v3"], rows["v4"] = library_id, unit, np.arange(size), batch.template_engine
    rows["v1"] = np.frombuffer(bytes.fromhex(batch.ids.tobytes().decode()), dtype="V16")
    rows["v5"] = np.ascontiguousarray(batch.nodes).reshape(-1).view(f"V{configs}")
    rows["tail_length"] = [len(record) for record in batch.records]
    yield _HEADER
    for start in range(0, size, _ROWS_PER_CHUNK):
        fixed = rows[start : start + _ROWS_PER_CHUNK].view(f"V{rows.dtype.itemsize}").tolist()
        pairs = zip(fixed, batch.records[start : start + _ROWS_PER_CHUNK], strict=True)
        yield b"".join(part for pair in pairs for part in pair)
    yield _TRAILER


def capacity_copy(library_id: int, unit: int, batch: TemplateBatch) -> Iterator[bytes]:
    """The input of COPY_CAPACITY."""
    entries = capacity_entries(batch)
    rows = _copy_rows(len(entries), (">i4", ">i2", ">i4", ">i2", ">i2", ">f8"))
    rows["v0"], rows["v1"] = library_id, unit
    for value, field in (("v2", "ordinal"), ("v3", "point"), ("v4", "class"), ("v5", "units_per_s")):
        rows[value] = entries[field]
    yield _HEADER
    yield rows.tobytes()
    yield _TRAILER


def limited_rows(library_id: int, unit: int, batch: TemplateBatch) -> Iterator[tuple[Any, ...]]:
    """The rows of COPY_LIMITED: capacities of a batch some of which are regions."""
    entries = capacity_entries(batch)
    nth = np.arange(len(entries)) - np.searchsorted(entries["ordinal"], entries["ordinal"])
    for entry, place in zip(entries.tolist(), nth.tolist(), strict=True):
        limits = batch.limits.get(entry[1])
        yield library_id, unit, *entry[1:], None if limits is None else [limit[place] for limit in limits]


def capacity_entries(batch: TemplateBatch) -> NDArray[np.void]:
    """The batch's capacities as `capacity_row_dtype`, sorted; points count from 0 within their template."""
    first_point = np.searchsorted(batch.point_template, batch.point_template, side="left")
    point = np.arange(len(batch.point_template)) - first_point
    entries = np.zeros(len(batch.entry_point), dtype=capacity_row_dtype())
    entries["ordinal"] = batch.point_template[batch.entry_point]
    entries["point"] = point[batch.entry_point]
    entries["class"] = batch.entry_class
    entries["units_per_s"] = batch.entry_units_per_s
    return entries[np.lexsort((entries["class"], entries["point"], entries["ordinal"]))]


def unit_digest(batch: TemplateBatch) -> bytes:
    """Hash (128 bits of BLAKE2b) of a unit's templates, capacities and records; not of how long they took, nor of
    engines, which the ids of templates are hashes of."""
    digest = hashlib.blake2b(digest_size=16)
    lengths = np.array([len(record) for record in batch.records], dtype=">i4")
    for part in (batch.ids, batch.nodes, capacity_entries(batch), lengths):
        digest.update(np.ascontiguousarray(part).tobytes())
    digest.update(b"".join(batch.records))
    for ordinal, limits in sorted(batch.limits.items()):
        digest.update(np.array([ordinal, *(use for limit in limits for use in limit)], dtype=">f8").tobytes())
    return digest.digest()


def _copy_rows(size: int, values: tuple[str, ...], *, variable_tail: bool = False) -> NDArray[np.void]:
    """Rows of the binary format with every field count and length set and all values (`v0`, …) zero.

    With a `variable_tail`, each row ends with the length of one more field, whose bytes are to follow it.
    """
    layout = [("fields", ">i2")]
    for index, value in enumerate(values):
        layout += [(f"length{index}", ">i4"), (f"v{index}", value)]
    if variable_tail:
        layout.append(("tail_length", ">i4"))
    rows = np.zeros(size, dtype=np.dtype(layout))
    rows["fields"] = len(values) + variable_tail
    for index, value in enumerate(values):
        rows[f"length{index}"] = np.dtype(value).itemsize
    return rows
