"""What a board remembers of requests has a limit."""

import pytest

from mainstay.tenancy.placement import board
from mainstay.tenancy.placement.board import Board
from mainstay.tenancy.placement.shape import Ask


def test_refusals_are_not_remembered_without_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody can ask for SKUs that he makes up."""
    monkeypatch.setattr(board, "REFUSALS_MAX", 3)
    empty = Board({}, [])
    said = {empty.refusal(Ask(f"made-up-{number}", 1, "eu")).reason for number in range(10)}
    assert len(said) == 1
    assert len(empty._refusals) <= 3
