"""Settings of the dashboard."""

import pytest

from mainstay.config.dashboard import DashboardConfig
from mainstay.model.errors import Rejected


def test_it_is_on_loopback_unless_told_otherwise() -> None:
    assert DashboardConfig().listen == "127.0.0.1:8700"


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"listen": "somewhere"}, "listen"),
        ({"refresh_s": 0.0}, "refresh_s"),
        ({"deadline_s": 0.0}, "deadline_s"),
        ({"session_hours": 0.0}, "session_hours"),
        ({"page_cert": "a.pem"}, "page_key"),
    ],
)
def test_what_cannot_be_is_refused_by_name(wrong: dict[str, object], word: str) -> None:
    with pytest.raises(Rejected, match=word):
        DashboardConfig(**wrong)  # type: ignore[arg-type]
