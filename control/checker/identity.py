"""Names: the snapshot and library that a plan speaks of, and what its template ids stand for."""

import hashlib
from collections.abc import Iterator

import msgspec

from control.checker.case import Case
from control.checker.violation import Violation
from templates_lib.values.plan import PlannedInstance
from templates_lib.values.template import Software


def violations(case: Case) -> Iterator[Violation]:
    plan, snapshot = case.plan, case.snapshot
    # A snapshot written by hand may leave its versions out: its own then follows from its content.
    version = snapshot.version or _digest(msgspec.json.encode(snapshot, order="sorted"))
    if plan.snapshot_version != version:
        yield Violation("version", "snapshot_version", version, plan.snapshot_version)
    if snapshot.library_version and plan.library_version != snapshot.library_version:
        yield Violation("version", "library_version", snapshot.library_version, plan.library_version)
    for planned in plan.instances:
        yield from _template(case, planned)


def _template(case: Case, planned: PlannedInstance) -> Iterator[Violation]:
    where = f"instances[{planned.template_id} in {planned.zone}]"
    if planned.placement is not None and planned.software is not None:
        expected = _hash(planned, planned.software)
        if expected != planned.template_id:
            yield Violation("template_id", where, f"{expected} (hash of its content)", planned.template_id)
    if case.claims is None:
        return
    claim = case.claims.get(planned.template_id)
    if claim is None:
        yield Violation("template", where, "a template of the library", "none of that id")
        return
    if claim.nodes != planned.nodes:
        yield Violation("template", f"{where}.nodes", f"{claim.nodes}", f"{planned.nodes}")
    if claim.engines != planned.engines:
        yield Violation("template", f"{where}.engines", claim.engines or "none known", planned.engines or "none")
    if not claim.allows(planned.units_per_s):
        expected = f"a mixture of {' or '.join(map(str, claim.points))}"
        yield Violation("template", f"{where}.units_per_s", expected, f"{planned.units_per_s}")


def _hash(planned: PlannedInstance, software: Software) -> str:
    """Template ids are hashes of the sorted JSON of software, nodes and placement, and of a name of its own."""
    names = (software.model, software.model_revision, software.dtype, software.engine, software.dispatch)
    own_name = (software.served_as,) if software.served_as else ()
    return _digest(msgspec.json.encode((*names, planned.nodes, planned.placement, *own_name), order="sorted"))


def _digest(content: bytes) -> str:
    """128 bits of BLAKE2b, hex."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()
