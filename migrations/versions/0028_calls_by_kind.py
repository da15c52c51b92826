"""Calls of runs by their kind, and what they are given apart: lists of them do not read it"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None

_CALL = "as the code made it, MessagePack"
_PLACES = {"kind": 1, "given": 3}
"""Of what is on record of a call, an array of MessagePack."""
_TYPES: dict[str, Any] = {
    "run_id": sa.Text(), "path": sa.Text(), "call": sa.LargeBinary(), "kind": sa.Text(), "given": sa.LargeBinary(),
}  # fmt: skip
_PAGE = 100
"""Calls that are changed by one statement: what a call is given may be a megabyte."""


def upgrade() -> None:
    op.add_column("workflow_call", sa.Column("kind", sa.Text(), nullable=True))
    op.add_column("workflow_call", sa.Column("given", sa.LargeBinary(), nullable=True, comment="its arguments"))
    _change(_apart)
    op.alter_column("workflow_call", "kind", nullable=False)
    op.alter_column("workflow_call", "given", nullable=False)
    op.alter_column("workflow_call", "call", comment=f"{_CALL}, without `given`", existing_comment=_CALL)


def downgrade() -> None:
    _change(_together)
    op.alter_column("workflow_call", "call", comment=_CALL, existing_comment=f"{_CALL}, without `given`")
    op.drop_column("workflow_call", "given")
    op.drop_column("workflow_call", "kind")


def _apart(row: Any) -> dict[str, object]:
    call = msgspec.msgpack.decode(row.call)
    kind, given = call[_PLACES["kind"]], call[_PLACES["given"]]
    call[_PLACES["given"]] = b""
    return {"call": msgspec.msgpack.encode(call), "kind": kind, "given": given}


def _together(row: Any) -> dict[str, object]:
    call = msgspec.msgpack.decode(row.call)
    call[_PLACES["given"]] = row.given
    return {"call": msgspec.msgpack.encode(call)}


def _change(made: Callable[[Any], dict[str, object]]) -> None:
    """Change all calls, a page at a time: what Python makes of them goes back as one table of values."""
    connection, table = op.get_bind(), sa.table("workflow_call", *_columns(_TYPES))
    key, last = sa.tuple_(table.c.run_id, table.c.path), ("", "")
    while rows := connection.execute(sa.select(table).where(key > sa.tuple_(*last)).order_by(key).limit(_PAGE)).all():
        changed = [{"run_id": row.run_id, "path": row.path, **made(row)} for row in rows]
        new = sa.values(*_columns(changed[0]), name="new").data([tuple(each.values()) for each in changed])
        mine = (table.c.run_id == new.c.run_id, table.c.path == new.c.path)
        values = {column.name: column for column in new.c if column.name not in ("run_id", "path")}
        connection.execute(sa.update(table).where(*mine).values(values))
        last = rows[-1].run_id, rows[-1].path


def _columns(names: Iterable[str]) -> "list[sa.ColumnClause[Any]]":
    return [sa.column(name, _TYPES[name]) for name in names]
