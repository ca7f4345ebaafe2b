"""Settings of `mainstay provider`. Read once at start by mainstay.config.load."""

from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from mainstay.config.require import PORT_MAX, is_address, require


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderConfig:
    """What every kind of provider has."""

    section: ClassVar[str]
    """In the configuration file."""

    listen: str = "127.0.0.1:9000"
    """Where to serve; port 0 picks a free one."""

    http: str = ""
    """Where /healthz, /readyz and /metrics are, on loopback; empty: nowhere."""

    state: str = ""
    """The file that remembers over a restart; else `providers/NAME.db` at home; `sim` forgets."""

    tls_cert: str = ""
    """The certificate, in PEM."""

    tls_key: str = ""
    """Its private key, in PEM."""

    tls_ca: str = ""
    """The authority whose certificates are trusted, in PEM."""

    insecure: bool = False
    """Plaintext, on loopback only."""

    def __post_init__(self) -> None:
        for name in ("listen", "http"):
            address = getattr(self, name)
            unset = name == "http" and not address
            require(
                unset or is_address(address),
                f"{self.section}.{name} must be HOST:PORT, the port at most {PORT_MAX}: {address}",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class SimProviderConfig(ProviderConfig):
    """A simulated cloud."""

    section = "provider_sim"

    fleet: str = ""
    """A TOML file of pools; without one a mixed fleet is served."""

    faults: str = ""
    """A TOML file of what goes wrong, and how often."""

    seed: int = 1
    """The same seed and the same calls give the same answers."""

    @override
    def __post_init__(self) -> None:
        ProviderConfig.__post_init__(self)
        require(self.seed >= 0, "provider_sim.seed must not be negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticProviderConfig(ProviderConfig):
    """Bare metal from a file."""

    section = "provider_static"

    hosts: str = ""
    """The TOML file of hosts; it is read again whenever the hardware is looked at."""

    name: str = "static"
    """In every host; constant over the provider's life."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ec2ProviderConfig(ProviderConfig):
    """Instances of one region of EC2."""

    section = "provider_ec2"

    config: str = ""
    """The TOML file of pools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnProviderConfig(ProviderConfig):
    """A backend that somebody else wrote."""

    section = "provider_serve"

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

    @override
    def __post_init__(self) -> None:
        ProviderConfig.__post_init__(self)
        for name in ("create_timeout_s", "configure_timeout_s", "drain_timeout_s",
                     "delete_timeout_s", "ready_poll_s"):  # fmt: skip
            require(getattr(self, name) > 0, f"provider_serve.{name} must be above 0")
