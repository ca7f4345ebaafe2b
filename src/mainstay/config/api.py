"""Settings of `mainstay api`, `relay`, `worker`, `biller` and `notifier`."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from mainstay.config.require import PORT_MAX, is_address, require

RUNNING: Final = "running"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiConfig:
    """What the processes of tenancy have in common: each is given all of it."""

    listen: str = "127.0.0.1:8800"
    """Where the API is; port 0 picks a free one."""

    agents: str = "127.0.0.1:8801"
    """Where node agents are listened to, by mutual TLS."""

    agents_name: str = ""
    """Host names and addresses by which agents know that listener, with commas between."""

    http: str = ""
    """Where /healthz, /readyz and /metrics of the other processes are, on loopback."""

    database: str = ""
    """The URL of a PostgreSQL; `running`: the one that runs at home, and is waited for; empty: that
    one if it runs, else an embedded one of the process's own.
    """

    bus: str = ""
    """The URL of a NATS server; empty: the database carries events."""

    workflows: str = ""
    """`temporal://HOST:PORT/NAMESPACE`; empty: durable work is remembered in the database."""

    tls_cert: str = ""
    """The certificate of the API, in PEM; without one it is on loopback only."""

    tls_key: str = ""
    """Its private key, in PEM."""

    rate_per_s: float = 50.0
    """How often one caller may call, each second."""

    rate_burst: int = 200
    """How many calls of one caller are taken at once."""

    connections_max: int = 24
    """Of one process to the database."""

    silent_s: float = 120.0
    """A node whose agent says nothing for so long gets nothing new."""

    events_kept_days: float = 30.0
    """How long an event is kept that everybody has consumed, and what people were told of it."""

    work_kept_days: float = 30.0
    """How long finished work is remembered; no shorter than its event."""

    simulate: str = ""
    """Nodes whose agent is simulated in this process, with commas between."""

    simulate_phase_s: float = 0.2
    """How long a phase of a simulated agent takes."""

    oidc_issuer: str = ""
    """Whose tokens are believed; empty: API keys only."""

    oidc_audience: str = "mainstay"
    """For whom a token must be."""

    oidc_jwks: str = ""
    """The issuer's public keys: a file, or the https:// URL where it publishes them."""

    oidc_role_claim: str = "mainstay_role"
    """The claim that says tenant, member, admin or readonly."""

    oidc_project_claim: str = "mainstay_project"
    """The claim that says which project."""

    def __post_init__(self) -> None:
        for name in ("listen", "agents", "http"):
            address = getattr(self, name)
            require(
                is_address(address) or (name == "http" and not address),
                f"api.{name} must be HOST:PORT, the port at most {PORT_MAX}: {address}",
            )
        require(
            not self.workflows or is_temporal(self.workflows),
            f"api.workflows must be temporal://HOST:PORT/NAMESPACE: {self.workflows[:120]}",
        )
        require(self.rate_per_s > 0, "api.rate_per_s must be above 0")
        require(self.rate_burst >= 1, "api.rate_burst must be at least 1")
        require(self.connections_max >= 4, "api.connections_max must be at least 4")
        require(self.silent_s > 0, "api.silent_s must be above 0")
        require(self.events_kept_days > 0, "api.events_kept_days must be above 0")
        require(
            self.work_kept_days >= self.events_kept_days,
            "api.work_kept_days must not be below api.events_kept_days: an event that comes again "
            "must find its work",
        )
        require(self.simulate_phase_s >= 0, "api.simulate_phase_s must not be negative")
        require(
            bool(self.tls_cert) == bool(self.tls_key),
            "api.tls_cert and api.tls_key belong together: give both or none",
        )
        require(
            not self.oidc_issuer or bool(self.oidc_jwks),
            "api.oidc_issuer needs api.oidc_jwks, the file or the URL of its keys",
        )
        require(
            self.oidc_jwks.partition(":")[0].lower() != "http" or is_here(self.oidc_jwks),
            f"api.oidc_jwks must be https:// unless it is on loopback: {self.oidc_jwks[:120]}",
        )


def is_here(url: str) -> bool:
    """Whether a URL leads to this machine and to no other."""
    return urlsplit(url).hostname in {"127.0.0.1", "::1", "localhost"}


def is_temporal(url: str) -> bool:
    """Whether a URL names a Temporal server: `temporal://HOST:PORT`, and a namespace or none."""
    scheme, separator, rest = url.partition("://")
    address, _, namespace = rest.partition("/")
    return (
        (scheme, separator) == ("temporal", "://")
        and is_address(address)
        and "/" not in (namespace)
    )
