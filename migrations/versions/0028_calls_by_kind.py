"""Calls of runs by their kind, and what they are given apart: lists of them do not read it"""

from collections.abc import Callable
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
    table = sa.table("workflow_call", *map(sa.column, ("run_id", "path", "call", "kind", "given")))
    connection = op.get_bind()
    for row in connection.execute(sa.select(table)).all():
        mine = (table.c.run_id == row.run_id, table.c.path == row.path)
        connection.execute(sa.update(table).where(*mine).values(made(row)))
