"""Offered load is counted by work class and unit, answers by work class and objective"""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_KEYS = {
    "demand_line": ("gateway, started_at, app, request_type, project", "fleet"),
    "demand_hour": ("fleet, started_at, app, request_type, project", "seconds"),
}
"""Table → its key, and what else a row has beside its counts."""
_TEXT = {"prompt_token": "prefill", "output_token": "decode"}
"""Unit → phase of the work class: what was counted of text, in columns of their own."""


def upgrade() -> None:
    comment = "answers by work class and objective; null: nobody counted"
    op.add_column("slo_sample", sa.Column("judged", sa.JSON(), nullable=True, comment=comment))
    for table, (key, other) in _KEYS.items():
        op.execute(f"ALTER TABLE {table} RENAME requests TO offered")
        op.execute(f"ALTER TABLE {table} RENAME served_requests TO served")
        op.execute(
            f"ALTER TABLE {table} ADD work_class text NOT NULL DEFAULT '', ADD unit text NOT NULL DEFAULT 'invocation',"
            f" DROP CONSTRAINT pk_{table}, ADD CONSTRAINT pk_{table} PRIMARY KEY ({key}, work_class)"
        )
        for unit in _TEXT:
            op.execute(f"ALTER TABLE {table} ALTER {unit}s DROP NOT NULL, ALTER served_{unit}s DROP NOT NULL")
        for unit, phase in _TEXT.items():
            # Of what was refused only requests were counted.
            op.execute(
                f"INSERT INTO {table} ({key}, {other}, work_class, unit, offered, refused, served)"  # noqa: S608
                f" SELECT {key}, {other}, app || '/{phase}', '{unit}', {unit}s,"
                f" round(refused::numeric * {unit}s / greatest(offered, 1)), served_{unit}s"
                f" FROM {table} WHERE work_class = ''"
            )
        for unit in _TEXT:
            op.execute(f"ALTER TABLE {table} DROP {unit}s, DROP served_{unit}s")
        op.execute(f"ALTER TABLE {table} ALTER work_class DROP DEFAULT, ALTER unit DROP DEFAULT")


def downgrade() -> None:
    op.drop_column("slo_sample", "judged")
    for table, (key, _) in _KEYS.items():
        for unit in _TEXT:
            for column, of in ((f"{unit}s", "offered"), (f"served_{unit}s", "served")):
                op.execute(f"ALTER TABLE {table} ADD {column} bigint NOT NULL DEFAULT 0")
                op.execute(f"ALTER TABLE {table} ALTER {column} DROP DEFAULT")
                op.execute(
                    f"UPDATE {table} SET {column} = units FROM (SELECT {key}, sum({of}) AS units FROM {table}"  # noqa: S608
                    f" WHERE unit = '{unit}' GROUP BY {key}) own WHERE ({_of(table, key)}) = ({_of('own', key)})"
                )
        op.execute(f"DELETE FROM {table} WHERE work_class <> ''")  # noqa: S608
        op.execute(
            f"ALTER TABLE {table} DROP CONSTRAINT pk_{table}, DROP work_class, DROP unit,"
            f" ADD CONSTRAINT pk_{table} PRIMARY KEY ({key})"
        )
        op.execute(f"ALTER TABLE {table} RENAME offered TO requests")
        op.execute(f"ALTER TABLE {table} RENAME served TO served_requests")


def _of(table: str, key: str) -> str:
    return ", ".join(f"{table}.{name}" for name in key.split(", "))
