"""Machines of a fleet as nodes, and capacity that is waited for."""

from pathlib import Path

from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Run the SQL of the same name."""
    text = (Path(__file__).parent.parent / "sql" / "0002_bridge.sql").read_text(encoding="utf-8")
    op.get_bind().exec_driver_sql(text.replace("%", "%%"))
