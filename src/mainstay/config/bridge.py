"""Settings of `mainstay bridge`. Read once at start by mainstay.config.load."""

from dataclasses import dataclass
from functools import cached_property

from mainstay.config.require import PORT_MAX, is_address, require
from mainstay.model.errors import Rejected
from mainstay.model.ids import is_id


@dataclass(frozen=True, kw_only=True)
class BridgeConfig:
    """Tenancy as a cluster of a shard."""

    shard: str = ""
    """Where the shard is, HOST:PORT; empty: there is no bridge."""

    cluster_id: str = "tenants"
    """Which cluster tenancy is; its certificate must name it."""

    agents_url: str = ""
    """Where machines call to enrol, https://HOST:PORT; empty: where `mainstay api` here says."""

    http: str = ""
    """Where /healthz, /readyz and /metrics are, on loopback; empty: nowhere."""

    simulate: bool = False
    """Whether the agents of its machines are simulated in this process."""

    simulate_phase_s: float = 0.2
    """How long a phase of a simulated agent takes."""

    every_s: float = 2.0
    """Seconds between two looks when nothing has happened."""

    head_room: tuple[str, ...] = ()
    """KIND=NODES each: so many nodes are kept free; else as the catalogue says."""

    join_s: float = 900.0
    """From the bootstrap to the first call of the agent; then the machine is given up."""

    settle_s: float = 10.0
    """After a session began: until what it does not say of a machine is believed."""

    gone_after_s: float = 300.0
    """A machine that the shard does not name, and whose agent is silent, is gone after this."""

    cleanup_s: float = 60.0
    """So much of a drain's grace is left for clean-up; the rest is notice to the tenant."""

    lives_kept_days: float = 365.0
    """How long a retired node is kept that never was part of an allocation: what tenants cost is
    divided by the time that nodes were there."""

    tls_cert: str = ""
    """The certificate of the cluster, in PEM."""

    tls_key: str = ""
    """Its private key, in PEM."""

    tls_ca: str = ""
    """Whose certificates are trusted, in PEM."""

    insecure: bool = False
    """Plaintext, on loopback only."""

    def __post_init__(self) -> None:
        for name in ("shard", "http"):
            address = getattr(self, name)
            require(
                not address or is_address(address),
                f"bridge.{name} must be HOST:PORT, the port at most {PORT_MAX}: {address}",
            )
        require(is_id(self.cluster_id), f"bridge.cluster_id is no id: {self.cluster_id[:80]!r}")
        require(
            not self.agents_url or self.agents_url.startswith("https://"),
            f"bridge.agents_url must be https://HOST:PORT: {self.agents_url[:120]}",
        )
        require(0.05 <= self.every_s <= 3_600, "bridge.every_s must be between 0.05 and 3600")
        for name in ("join_s", "gone_after_s", "lives_kept_days"):
            require(getattr(self, name) > 0, f"bridge.{name} must be above 0")
        for name in ("settle_s", "cleanup_s", "simulate_phase_s"):
            require(getattr(self, name) >= 0, f"bridge.{name} must not be negative")
        _ = self.head_room_of

    @cached_property
    def head_room_of(self) -> dict[str, int]:
        """Nodes that are kept free, by kind."""
        found = {}
        for each in self.head_room:
            kind, separator, count = each.partition("=")
            if not separator or not kind or not count.isdecimal():
                raise Rejected(f"bridge.head_room must be KIND=NODES: {each[:80]!r}")
            found[kind] = int(count)
        return found
