"""Settings of `mainstay provider`."""

from dataclasses import dataclass

from mainstay.config.require import require


@dataclass(frozen=True, slots=True, kw_only=True)
class SimProviderConfig:
    """Read once at start by mainstay.config.load; never looked up again."""

    listen: str = "127.0.0.1:9000"
    """Where to serve; port 0 picks a free one."""

    fleet: str = ""
    """A TOML file of pools; without one a mixed fleet is served."""

    faults: str = ""
    """A TOML file of what goes wrong, and how often."""

    seed: int = 1
    """The same seed and the same calls give the same answers."""

    state: str = ""
    """A file that remembers over a restart; without one nothing does."""

    tls_cert: str = ""
    """The certificate, in PEM."""

    tls_key: str = ""
    """Its private key, in PEM."""

    tls_ca: str = ""
    """The authority whose certificates are trusted, in PEM."""

    insecure: bool = False
    """Plaintext, on loopback only."""

    http: str = ""
    """Where /healthz, /readyz and /metrics are, on loopback; empty: nowhere."""

    def __post_init__(self) -> None:
        require(":" in self.listen, f"provider_sim.listen must be HOST:PORT: {self.listen}")
        require(self.seed >= 0, "provider_sim.seed must not be negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticProviderConfig:
    """Read once at start by mainstay.config.load; never looked up again."""

    listen: str = "127.0.0.1:9000"
    """Where to serve; port 0 picks a free one."""

    hosts: str = ""
    """The TOML file of hosts; it is read again whenever the hardware is looked at."""

    name: str = "static"
    """In every host; constant over the provider's life."""

    state: str = ""
    """A file that remembers over a restart; without one it is `providers/NAME.db` at home."""

    tls_cert: str = ""
    """The certificate, in PEM."""

    tls_key: str = ""
    """Its private key, in PEM."""

    tls_ca: str = ""
    """The authority whose certificates are trusted, in PEM."""

    insecure: bool = False
    """Plaintext, on loopback only."""

    http: str = ""
    """Where /healthz, /readyz and /metrics are, on loopback; empty: nowhere."""

    def __post_init__(self) -> None:
        require(":" in self.listen, f"provider_static.listen must be HOST:PORT: {self.listen}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ec2ProviderConfig:
    """Read once at start by mainstay.config.load; never looked up again."""

    listen: str = "127.0.0.1:9000"
    """Where to serve; port 0 picks a free one."""

    config: str = ""
    """The TOML file of pools."""

    state: str = ""
    """A file that remembers over a restart; without one it is `providers/NAME.db` at home."""

    tls_cert: str = ""
    """The certificate, in PEM."""

    tls_key: str = ""
    """Its private key, in PEM."""

    tls_ca: str = ""
    """The authority whose certificates are trusted, in PEM."""

    insecure: bool = False
    """Plaintext, on loopback only."""

    http: str = ""
    """Where /healthz, /readyz and /metrics are, on loopback; empty: nowhere."""

    def __post_init__(self) -> None:
        require(":" in self.listen, f"provider_ec2.listen must be HOST:PORT: {self.listen}")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnProviderConfig:
    """Read once at start by mainstay.config.load; never looked up again."""

    listen: str = "127.0.0.1:9000"
    """Where to serve; port 0 picks a free one."""

    state: str = ""
    """A file that remembers over a restart; without one it is `providers/NAME.db` at home."""

    create_timeout_s: float = 300.0
    """A Create that takes longer has failed."""

    configure_timeout_s: float = 300.0
    """The same for Configure, until the node has joined."""

    drain_timeout_s: float = 600.0
    """The same for Drain; its grace period is added."""

    delete_timeout_s: float = 300.0
    """The same for Delete."""

    ready_poll_s: float = 2.0
    """How often a backend is asked whether a node has joined."""

    tls_cert: str = ""
    """The certificate, in PEM."""

    tls_key: str = ""
    """Its private key, in PEM."""

    tls_ca: str = ""
    """The authority whose certificates are trusted, in PEM."""

    insecure: bool = False
    """Plaintext, on loopback only."""

    http: str = ""
    """Where /healthz, /readyz and /metrics are, on loopback; empty: nowhere."""

    def __post_init__(self) -> None:
        require(":" in self.listen, f"provider_serve.listen must be HOST:PORT: {self.listen}")
        for name in ("create_timeout_s", "configure_timeout_s", "drain_timeout_s",
                     "delete_timeout_s", "ready_poll_s"):  # fmt: skip
            require(getattr(self, name) > 0, f"provider_serve.{name} must be above 0")
