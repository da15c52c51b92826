"""A library may be made of others, one for each source of its recipe"""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "library_part",
        sa.Column("library_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("part_id", sa.Integer(), nullable=False, comment="whose templates it has; it has no own"),
        sa.ForeignKeyConstraint(
            ["library_id"], ["library.id"], name=op.f("fk_library_part_library_id_library"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["part_id"], ["library.id"], name=op.f("fk_library_part_part_id_library")),
        sa.PrimaryKeyConstraint("library_id", "position", name=op.f("pk_library_part")),
    )


def downgrade() -> None:
    # The release before would take them for libraries that lost their rows; their parts stay.
    op.execute("DELETE FROM library WHERE id IN (SELECT library_id FROM library_part)")
    op.drop_table("library_part")
