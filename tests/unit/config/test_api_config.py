"""Settings of tenancy: what cannot be is refused in one line."""

from typing import Any

import pytest

from mainstay.config.api import ApiConfig
from mainstay.config.load import outside
from mainstay.model.errors import Rejected


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"listen": "8800"}, "api.listen must be HOST:PORT"),
        ({"agents": "127.0.0.1:99999"}, "api.agents must be HOST:PORT"),
        ({"http": "here"}, "api.http must be HOST:PORT"),
        ({"rate_per_s": 0.0}, "api.rate_per_s must be above 0"),
        ({"rate_burst": 0}, "api.rate_burst must be at least 1"),
        ({"connections_max": 3}, "api.connections_max must be at least 4"),
        ({"silent_s": 0.0}, "api.silent_s must be above 0"),
        ({"simulate_phase_s": -1.0}, "api.simulate_phase_s must not be negative"),
        ({"tls_cert": "a.pem"}, "api.tls_cert and api.tls_key belong together"),
        ({"oidc_issuer": "https://issuer.example"}, "api.oidc_issuer needs api.oidc_jwks"),
        ({"oidc_jwks": "http://issuer.example/keys"}, "api.oidc_jwks must be https://"),
        ({"oidc_jwks": "HTTP://issuer.example/keys"}, "api.oidc_jwks must be https://"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_by_name(change: dict[str, Any], why: str) -> None:
    with pytest.raises(Rejected, match=why):
        ApiConfig(**change)


def test_what_is_built_in_is_on_loopback() -> None:
    assert ApiConfig().listen == "127.0.0.1:8800"
    assert ApiConfig().agents == "127.0.0.1:8801"


def test_a_variable_outside_the_sections_is_read_by_its_name_only() -> None:
    assert outside("MAINSTAY_KEY", {"MAINSTAY_KEY": "k"}) == "k"
    assert outside("MAINSTAY_KEY", {"MAINSTAY_KEY": ""}) is None
    with pytest.raises(AssertionError):
        outside("PATH", {})


@pytest.mark.parametrize("url", ["temporal://127.0.0.1:7233", "temporal://flows.example:7233/ours"])
def test_a_temporal_server_is_named_by_a_url(url: str) -> None:
    assert ApiConfig(workflows=url).workflows == url


@pytest.mark.parametrize(
    "url",
    ["127.0.0.1:7233", "temporal://", "temporal://host", "http://a:1/b", "temporal://a:1/b/c"],
)
def test_what_names_no_temporal_server_is_refused(url: str) -> None:
    with pytest.raises(Rejected, match="temporal://HOST:PORT/NAMESPACE"):
        ApiConfig(workflows=url)
