"""Which nodes placement has to look at again."""

from pathlib import Path

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Run the SQL of the same name."""
    text = (Path(__file__).parent.parent / "sql" / "0003_changes.sql").read_text(encoding="utf-8")
    op.get_bind().exec_driver_sql(text.replace("%", "%%"))
