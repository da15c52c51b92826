"""Fleets that said nothing about `slo.keep` state throughput, which that meant; from here on it means a percentile"""

import json
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
import yaml
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

_FLEET = sa.table("fleet", sa.column("name"), sa.column("spec"), sa.column("version"), sa.column("updated_at"))
_EVENT = sa.table(
    "event", *(sa.column(name) for name in ("at", "actor", "kind", "fleet", "subject", "text")),
    sa.column("detail", sa.JSON), sa.column("trace"),
)  # fmt: skip
_UP = (
    "an upgrade stated `keep: {throughput: true}` for its models, as which it was planned so far: new fleets promise a"
    " percentile of all requests; remove it from the spec and apply that to promise one, too"
)
_DOWN = "a downgrade stated what its models keep: releases before promise no percentile unless `slo.keep` says so"

Keep = dict[str, Any]


def upgrade() -> None:
    _state(lambda slo: None if slo.get("keep") else {"throughput": True}, _UP)


def downgrade() -> None:
    _state(_as_before, _DOWN)


def _as_before(slo: dict[str, Any]) -> Keep | None:
    """`throughput` as a word, and a percentile, mean the same in the release before."""
    keep = slo.get("keep") or {}
    if keep == "throughput" or ("percentile" in keep and "throughput" not in keep):
        return None
    return {"percentile": None if keep.get("throughput") else keep.get("percentile") or slo.get("percentile", 99)}


def _state(keep_of: Callable[[dict[str, Any]], Keep | None], note: str) -> None:
    """Write what `keep_of` makes of an objective into every spec; None: it stays as it is."""
    connection = op.get_bind()
    for name, spec in connection.execute(sa.select(_FLEET.c.name, _FLEET.c.spec)).all():
        if (stated := _stated(spec, keep_of)) == spec:
            continue
        # A new version: whoever has read the fleet before may not write over what is stated now.
        values = {"spec": stated, "version": _FLEET.c.version + 1, "updated_at": sa.func.now()}
        connection.execute(sa.update(_FLEET).where(_FLEET.c.name == name).values(values))
        event = {"actor": "medley", "kind": "fleet.changed", "fleet": name, "subject": name, "text": note, "trace": ""}
        connection.execute(sa.insert(_EVENT).values(event | {"at": sa.func.now(), "detail": {}}))


def _stated(spec: str, keep_of: Callable[[dict[str, Any]], Keep | None]) -> str:
    wanted = yaml.safe_load(spec)
    changed: list[tuple[int, Keep]] = []
    for place, model in enumerate(wanted["models"]):
        if (keep := keep_of(model["slo"])) is not None:
            changed.append((place, keep))
    if not changed:
        return spec
    for place, keep in changed:
        wanted["models"][place]["slo"] = wanted["models"][place]["slo"] | {"keep": keep}
    if spec.lstrip().startswith("{"):
        return json.dumps(wanted)
    stated = _inserted(spec, changed)
    # Where objectives come by merge keys, or keep is there already, the text is written anew, without its comments.
    return stated if stated and yaml.safe_load(stated) == wanted else yaml.safe_dump(wanted, sort_keys=False)


def _inserted(spec: str, changed: list[tuple[int, Keep]]) -> str | None:
    """Return the text with `keep` as the first key of these models' objectives, and all else as its owner wrote it."""
    inserts: dict[int, str] = {}
    models = _value(yaml.compose(spec, Loader=yaml.SafeLoader), "models")
    for place, keep in changed:
        slo = _value(models.value[place], "slo")
        if slo is None:
            return None
        at = slo.value[0][0].start_mark
        said = ", ".join(f"{key}: {json.dumps(value)}" for key, value in keep.items())
        end = ", " if slo.flow_style else "\n" + " " * at.column
        inserts[at.index] = f"keep: {{{said}}}{end}"
    for index in sorted(inserts, reverse=True):
        spec = spec[:index] + inserts[index] + spec[index:]
    return spec


def _value(node: Any, key: str) -> Any:
    """Return the node of the key's value; None where the mapping itself does not have it."""
    return next((value for name, value in node.value if name.value == key), None)
