"""Events are sealed by a chain of hashes, and neither they nor their seals can be changed or removed"""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

_TABLES = ("event", "event_seal")


def upgrade() -> None:
    op.create_table(
        "event_seal",
        sa.Column("position", sa.BigInteger(), autoincrement=False, nullable=False, comment="place in the chain"),
        sa.Column("event", sa.BigInteger(), nullable=False, comment="its sequence"),
        sa.Column("digest", sa.LargeBinary(), nullable=False, comment="SHA-256 of the one before it and the event"),
        sa.PrimaryKeyConstraint("position"),
        sa.UniqueConstraint("event"),
    )
    op.execute(
        """
        CREATE FUNCTION medley_only_added() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            RAISE EXCEPTION 'rows of % are only ever added', TG_TABLE_NAME;
        END $$
        """
    )
    for table in _TABLES:
        refuse = "EXECUTE FUNCTION medley_only_added()"
        op.execute(f"CREATE TRIGGER only_added BEFORE UPDATE OR DELETE ON {table} FOR EACH ROW {refuse}")
        op.execute(f"CREATE TRIGGER never_emptied BEFORE TRUNCATE ON {table} FOR EACH STATEMENT {refuse}")


def downgrade() -> None:
    for table in _TABLES:
        op.execute(f"DROP TRIGGER never_emptied ON {table}")
        op.execute(f"DROP TRIGGER only_added ON {table}")
    op.execute("DROP FUNCTION medley_only_added()")
    op.drop_table("event_seal")
