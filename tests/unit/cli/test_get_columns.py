"""What stands in the cells of tables."""

import pytest

from mainstay.cli.get_columns import ACTIONS, Of
from mainstay.model.views import ActionRow


@pytest.mark.parametrize(
    ("kind", "saved", "said"),
    [("reclaim", 2.5, "2.50"), ("preempt", 2.5, "2.50 not bought"), ("bootstrap", 0.0, "")],
)
def test_what_a_preempt_saves_is_not_said_to_be_paid_no_more(
    kind: str, saved: float, said: str
) -> None:
    """Its machine goes on costing, for somebody else."""
    row = ActionRow(cycle=1, decided=1, kind=kind, machine="m-1", saved_per_hour=saved)

    [column] = [each for each in ACTIONS.columns if each.name == "saves/hour"]
    assert column.value(Of("shard-a", row)) == said
