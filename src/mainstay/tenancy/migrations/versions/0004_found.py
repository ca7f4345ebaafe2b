"""Indexes for what is asked about time, and for lists of all projects."""

from pathlib import Path

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Run the SQL of the same name."""
    text = (Path(__file__).parent.parent / "sql" / "0004_found.sql").read_text(encoding="utf-8")
    op.get_bind().exec_driver_sql(text.replace("%", "%%"))
