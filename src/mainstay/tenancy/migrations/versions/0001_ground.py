"""What tenants hold, what it stands on, and what is told and charged of it."""

from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Run the SQL of the same name."""
    text = (Path(__file__).parent.parent / "sql" / "0001_ground.sql").read_text(encoding="utf-8")
    op.get_bind().exec_driver_sql(text.replace("%", "%%"))
