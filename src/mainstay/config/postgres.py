"""Settings of `mainstay postgres`. Read once at start by mainstay.config.load."""

from dataclasses import dataclass

from mainstay.config.require import PORT_MAX, require


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresConfig:
    """Where the database of tenancy is."""

    port: int = 8820
    """On loopback; 0 picks a free one, so that whoever uses it has to be started after it."""

    def __post_init__(self) -> None:
        require(0 <= self.port <= PORT_MAX, f"postgres.port must be 0 to {PORT_MAX}: {self.port}")
