"""Settings of `mainstay provider serve`."""

import pytest

from mainstay.config.provider import OwnProviderConfig
from mainstay.model.errors import Rejected
from mainstay.providers.kit.options import STEP_TIMEOUTS_S, Options


def test_a_step_has_the_time_the_kit_gives_it_unless_told_otherwise() -> None:
    config = OwnProviderConfig()

    for call, seconds in STEP_TIMEOUTS_S.items():
        assert getattr(config, f"{call}_timeout_s") == seconds
    assert config.ready_poll_s == Options().ready_poll_s


TIMES = [*(f"{call}_timeout_s" for call in STEP_TIMEOUTS_S), "ready_poll_s"]


@pytest.mark.parametrize("name", TIMES)
def test_no_time_at_all_is_refused(name: str) -> None:
    with pytest.raises(Rejected, match=rf"provider_serve\.{name} must be above 0"):
        OwnProviderConfig(**{name: 0.0})  # type: ignore[arg-type] # by name


def test_an_address_without_a_port_is_refused() -> None:
    with pytest.raises(Rejected, match=r"provider_serve\.listen must be HOST:PORT, .*: localhost"):
        OwnProviderConfig(listen="localhost")
