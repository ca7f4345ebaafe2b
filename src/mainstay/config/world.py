"""Settings of `mainstay world`. Read once at start by mainstay.config.load."""

from dataclasses import dataclass
from functools import cached_property

from mainstay.config.require import PORT_MAX, is_address, require
from mainstay.config.shard import parse_providers

PROVIDERS = ("metal", "on-demand", "spot")
"""What the simulated fleet is sold as."""


@dataclass(frozen=True, kw_only=True)
class WorldConfig:
    """A fleet and its users, none of it real."""

    machines: int = 2_000
    """Slots and hosts at all providers together."""

    seed: int = 1
    """The same seed, the same fleet and the same demand."""

    listen: str = "127.0.0.1:9000"
    """Where the first provider is; the others are at the ports above it. Port 0: free ones."""

    http: str = "127.0.0.1:8980"
    """Where /healthz, /metrics and what the clusters see are, on loopback; empty: nowhere."""

    shards: tuple[str, ...] = ()
    """Whom clusters ask: `cluster=host:port` each, one for every cluster."""

    share: float = 0.25
    """How much of the fleet the clusters ask for on average, all together."""

    every_s: float = 5.0
    """Seconds between two roll-ups."""

    day_s: float = 600.0
    """From one peak of demand to the next."""

    gang: int = 64
    """Machines of a gang that the first cluster always asks for and no rack holds; 0: none."""

    hold_for: tuple[str, ...] = ("tenants",)
    """Clusters whose workloads use all of a grace: a drain of their machines takes as long."""

    pki: str = ""
    """The folder with certificates, as `mainstay certs` writes them; else `pki` at home."""

    insecure: bool = False
    """Plaintext, on loopback only."""

    def __post_init__(self) -> None:
        require(10 <= self.machines <= 1_000_000, "world.machines must be 10 to 1000000")
        require(self.seed >= 0, "world.seed must not be negative")
        require(is_address(self.listen), f"world.listen must be HOST:PORT: {self.listen}")
        require(
            not self.http or is_address(self.http),
            f"world.http must be HOST:PORT, the port at most {PORT_MAX}: {self.http}",
        )
        require(0 < self.share <= 1, f"world.share must be above 0 and at most 1: {self.share}")
        require(0.05 <= self.every_s <= 3_600, "world.every_s must be between 0.05 and 3600")
        require(0 <= self.gang <= 10_000, f"world.gang must be 0 to 10000: {self.gang}")
        require(self.day_s >= 2 * self.every_s, "world.day_s must be at least two steps")
        _ = self.cluster_addresses

    @cached_property
    def cluster_addresses(self) -> dict[str, str]:
        """The shard of each cluster."""
        return parse_providers(self.shards)

    @property
    def clusters(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(self.cluster_addresses)

    @property
    def listens(self) -> tuple[str, ...]:
        """Where each provider is."""
        host, _, port = self.listen.rpartition(":")
        return tuple(
            f"{host}:{int(port) + place if int(port) else 0}" for place in range(len(PROVIDERS))
        )
