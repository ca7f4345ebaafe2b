"""Settings of `mainstay dashboard`. Read once at start by mainstay.config.load."""

from dataclasses import dataclass

from mainstay.config.require import PORT_MAX, is_address, require


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardConfig:
    """Where the page is, and whom it asks."""

    listen: str = "127.0.0.1:8700"
    """Where the page is; port 0 picks a free one."""

    shards: str = ""
    """Shards to ask, HOST:PORT with commas between; empty: those that run here."""

    coordinator: str = ""
    """Coordinators to ask, HOST:PORT with commas between; empty: the one that runs here."""

    api: str = ""
    """The URL of the API of tenants; empty: the one that runs here."""

    tls_cert: str = ""
    """The certificate that is shown to shards and coordinators; empty: that of this home."""

    tls_key: str = ""
    """Its private key."""

    tls_ca: str = ""
    """Whose certificates are trusted there, and at an API with HTTPS."""

    insecure: bool = False
    """Whether the key of the API may go over a network in plaintext."""

    page_cert: str = ""
    """The certificate of the page itself, in PEM; without one it is on loopback only."""

    page_key: str = ""
    """Its private key, in PEM."""

    refresh_s: float = 2.0
    """How often live parts are brought up to date."""

    deadline_s: float = 2.0
    """How long one question may take before the last answer is shown as stale."""

    session_hours: float = 12.0
    """How long somebody stays signed in."""

    def __post_init__(self) -> None:
        require(
            is_address(self.listen),
            f"dashboard.listen must be HOST:PORT, the port at most {PORT_MAX}: {self.listen}",
        )
        require(0.2 <= self.refresh_s <= 3_600, "dashboard.refresh_s must be 0.2 to 3600")
        require(0.05 <= self.deadline_s <= 60, "dashboard.deadline_s must be 0.05 to 60")
        require(0 < self.session_hours <= 8_760, "dashboard.session_hours must be 0 to 8760")
        require(
            bool(self.page_cert) == bool(self.page_key),
            "dashboard.page_cert and dashboard.page_key belong together: give both or none",
        )
