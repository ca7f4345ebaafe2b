"""Settings of `mainstay provider`, and where state lives."""

import os
from pathlib import Path

import pytest

from mainstay.config.load import home_directory
from mainstay.config.provider import Ec2ProviderConfig, SimProviderConfig, StaticProviderConfig
from mainstay.model.errors import Rejected


@pytest.mark.parametrize("kind", [SimProviderConfig, StaticProviderConfig, Ec2ProviderConfig])
def test_an_address_without_a_port_is_refused(
    kind: type[SimProviderConfig] | type[StaticProviderConfig] | type[Ec2ProviderConfig],
) -> None:
    assert kind().listen == "127.0.0.1:9000"
    for wrong in ("localhost", ":9000", "127.0.0.1:", "127.0.0.1:99999", "127.0.0.1:http"):
        with pytest.raises(Rejected, match=f"listen must be HOST:PORT, .*: {wrong}"):
            kind(listen=wrong)
        with pytest.raises(Rejected, match=f"http must be HOST:PORT, .*: {wrong}"):
            kind(http=wrong)


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(Rejected, match=r"provider_sim\.seed must not be negative"):
        SimProviderConfig(seed=-1)


class TestHome:
    def test_it_is_where_the_environment_says(self) -> None:
        assert home_directory({"MAINSTAY_HOME": "/x/y"}) == Path("/x/y")

    def test_for_root_it_is_the_systems(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "geteuid", lambda: 0)

        assert home_directory({"XDG_STATE_HOME": "/x"}) == Path("/var/lib/mainstay")

    def test_for_anybody_else_it_is_their_own(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "geteuid", lambda: 1000)

        assert home_directory({"XDG_STATE_HOME": "/x"}) == Path("/x/mainstay")
        assert home_directory({}) == Path.home() / ".local/state/mainstay"
