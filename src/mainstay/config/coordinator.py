"""Settings of `mainstay coordinator`. Read once at start by mainstay.config.load."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mainstay.config.require import PORT_MAX, is_address, require

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)
"""It stands in a file's name, in a key of the store and in a certificate."""

_WEEK_S: Final = 7 * 86_400.0

RANGES: Final[Mapping[str, tuple[float, float]]] = {
    "lease_s": (0.5, 600),
    "report_interval_s": (0.05, 3_600),
    "rebalance_interval_s": (0.05, 86_400),
    "rebalance_young_cycles": (0, 1_000_000),
    "rebalance_patient_cycles": (0, 1_000_000),
    "rebalance_fresh_intervals": (1, 1_000_000),
    "rebalance_cool_down_intervals": (0, 1_000_000),
    "rebalance_settle_intervals": (0, 1_000_000),
    "rebalance_refusal_intervals": (0, 1_000_000),
    "rebalance_margin_percent": (0, 100),
    "rebalance_margin_least": (0, 1_000_000),
    "rebalance_machines_max": (1, 1_000),
    "rebalance_donors_max": (1, 1_000),
    "rebalance_open_moves_max": (0, 10_000),
    "move_open_max_s": (1, _WEEK_S),
    "moves_kept_s": (1, 100 * _WEEK_S),
    "snapshot_export_interval_s": (1, _WEEK_S),
    "snapshot_exports_kept": (1, 100_000),
}
"""Least and greatest value of every number; a number that is none of them is refused too."""


@dataclass(frozen=True, kw_only=True)
class CoordinatorConfig:
    """Where the state is, where it is served, and how readily capacity is moved."""

    coordinator_id: str = "coordinator-0"
    """Who we are among those that may lead: letters, digits, dots, dashes."""

    listen: str = "127.0.0.1:7790"
    """Where shards and people are served by gRPC; port 0 picks a free one."""

    http: str = "127.0.0.1:8790"
    """Where /healthz, /readyz and /metrics are, on loopback; empty: nowhere."""

    advertise: str = ""
    """Where others reach us, told to whoever asks a coordinator that does not lead; else listen."""

    fleet: str = "default"
    """Which fleet this is: one etcd may hold several, each below a prefix of its own."""

    etcd: tuple[str, ...] = ()
    """The members of an etcd, `http://host:port` each; none: one file, which is not replicated."""

    etcd_ca: str = ""
    """The authority of etcd's certificates, in PEM; for members that are `https://`."""

    etcd_cert: str = ""
    """Our certificate for etcd, in PEM."""

    etcd_key: str = ""
    """Its private key, in PEM."""

    etcd_insecure: bool = False
    """Plaintext to members on other machines too: whoever is in between reads and writes it."""

    store_file: str = ""
    """The file of the embedded store; else `coordinator.db` at home."""

    lease_s: float = 2.0
    """How long a leader that says nothing goes on leading."""

    report_interval_s: float = 30.0
    """How often shards report: the interval that the settings below count in."""

    rebalance: bool = True
    """Whether capacity is moved between shards by itself; the plan can be read in either case."""

    rebalance_interval_s: float = 150.0
    """How often to look for capacity to move."""

    rebalance_young_cycles: int = 5
    """A shortfall this many cycles old or younger is its own shard's business."""

    rebalance_patient_cycles: int = 12
    """Nobody is preempted for a shortfall this old or younger."""

    rebalance_fresh_intervals: int = 3
    """A shard whose last report is older than so many intervals neither gives nor gets."""

    rebalance_cool_down_intervals: int = 8
    """Intervals after a move in which its two shards exchange no more of its types."""

    rebalance_settle_intervals: int = 2
    """Intervals after it got machines in which a shortfall is not looked at again."""

    rebalance_refusal_intervals: int = 40
    """Intervals in which a donor that had nothing for a shortfall is not asked for it again."""

    rebalance_margin_percent: int = 10
    """The share of its free machines of a kind that a donor keeps."""

    rebalance_margin_least: int = 1
    """And at least so many of each kind."""

    rebalance_machines_max: int = 50
    """Most machines of one move."""

    rebalance_donors_max: int = 3
    """Most donors for one shortfall at a time."""

    rebalance_open_moves_max: int = 200
    """Most moves under way in the whole fleet."""

    move_open_max_s: float = 3_600.0
    """A move that its donor has not answered for so long is called off."""

    moves_kept_s: float = 86_400.0
    """How long a settled move can be read."""

    snapshot_export_dir: str = ""
    """Where the leader writes the whole state at intervals; empty: nowhere."""

    snapshot_export_interval_s: float = 300.0
    """How often."""

    snapshot_exports_kept: int = 288
    """The oldest exports beyond so many are deleted."""

    tls_cert: str = ""
    """The certificate, in PEM."""

    tls_key: str = ""
    """Its private key, in PEM."""

    tls_ca: str = ""
    """The authority whose certificates are trusted, in PEM."""

    insecure: bool = False
    """Plaintext, on loopback only."""

    def __post_init__(self) -> None:
        for name in ("coordinator_id", "fleet"):
            value = getattr(self, name)
            require(
                _NAME.fullmatch(value) is not None,
                f"coordinator.{name} must be 1 to 63 letters, digits, dots, dashes: {value[:80]!r}",
            )
        for name in ("listen", "http", "advertise"):
            _require_address(name, getattr(self, name), optional=name != "listen")
        for name, (least, most) in RANGES.items():
            value = getattr(self, name)
            require(
                least <= value <= most,
                f"coordinator.{name} must be between {least:g} and {most:g}: {value}",
            )
        self._check_store()
        remembered_s = self.report_interval_s * max(
            self.rebalance_cool_down_intervals,
            self.rebalance_settle_intervals,
            self.rebalance_refusal_intervals,
        )
        require(
            self.moves_kept_s >= remembered_s,
            "coordinator.moves_kept_s must not be below the longest that the planner looks back, "
            f"{remembered_s:g}: {self.moves_kept_s:g}",
        )

    def _check_store(self) -> None:
        members = ", ".join(self.etcd)
        for member in self.etcd:
            scheme, _, address = member.partition("://")
            require(
                scheme in {"http", "https"} and is_address(address) and "/" not in address,
                f"coordinator.etcd must be http://HOST:PORT or https://HOST:PORT: {member[:120]}",
            )
        require(
            len({*self.etcd}) == len(self.etcd), f"coordinator.etcd names a member twice: {members}"
        )
        require(
            len({member.partition(":")[0] for member in self.etcd}) < 2,
            f"coordinator.etcd has members some with TLS and some without: {members}",
        )
        files = ("etcd_ca", "etcd_cert", "etcd_key")
        missing = [name for name in files if not getattr(self, name)]
        require(
            not missing or (len(missing) == len(files) and not self.etcd_is_secured),
            f"TLS to etcd needs etcd_ca, etcd_cert and etcd_key: {', '.join(missing)} missing",
        )
        require(
            not (self.etcd and self.store_file),
            "coordinator.etcd and coordinator.store_file contradict each other: "
            f"{members}; {self.store_file} (give one of them)",
        )

    @property
    def etcd_is_secured(self) -> bool:
        """Whether the members of etcd are spoken to by TLS."""
        return any(member.startswith("https:") for member in self.etcd)


def _require_address(name: str, address: str, *, optional: bool = False) -> None:
    require(
        (optional and not address) or is_address(address),
        f"coordinator.{name} must be HOST:PORT, the port at most {PORT_MAX}: {address}",
    )
