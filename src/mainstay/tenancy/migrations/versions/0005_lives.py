"""Indexes for nodes whose life is over."""

from pathlib import Path

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Run the SQL of the same name."""
    text = (Path(__file__).parent.parent / "sql" / "0005_lives.sql").read_text(encoding="utf-8")
    op.get_bind().exec_driver_sql(text.replace("%", "%%"))
