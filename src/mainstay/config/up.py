"""Settings of `mainstay up`. Read once at start by mainstay.config.load."""

from dataclasses import dataclass

from mainstay.config.require import PORT_MAX, is_address, require


@dataclass(frozen=True, slots=True, kw_only=True)
class UpConfig:
    """How large, and where."""

    fleet: int = 2_000
    """How many machines the simulated fleet has."""

    seed: int = 1
    """The same seed, the same fleet and the same demand."""

    free_ports: bool = False
    """Whether ports are picked that nobody uses, instead of the usual ones."""

    tenancy: bool = True
    """Whether tenants are served, too; it brings a PostgreSQL of its own."""

    cycle_interval_s: float = 5.0
    """How often a shard looks again when nothing has happened."""

    page: str = ""
    """Where the page is, HOST:PORT; empty: on loopback, at its usual port."""

    page_cert: str = ""
    """The certificate of the page, in PEM; without one it is on loopback only."""

    page_key: str = ""
    """Its private key, in PEM."""

    def __post_init__(self) -> None:
        require(30 <= self.fleet <= 1_000_000, f"up.fleet must be 30 to 1000000: {self.fleet}")
        require(self.seed >= 0, "up.seed must not be negative")
        require(0.1 <= self.cycle_interval_s <= 3_600, "up.cycle_interval_s must be 0.1 to 3600")
        require(
            not self.page or (is_address(self.page) and not self.page.endswith(":0")),
            f"up.page must be HOST:PORT, the port 1 to {PORT_MAX}: {self.page}",
        )
        require(
            bool(self.page_cert) == bool(self.page_key),
            "up.page_cert and up.page_key belong together: give both or none",
        )
