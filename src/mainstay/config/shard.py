"""Settings of `mainstay shard`. Read once at start by mainstay.config.load."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from mainstay.config.require import PORT_MAX, is_address, require
from mainstay.model.errors import Rejected
from mainstay.model.ids import is_id

_SHARD_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)
"""It names a directory and a file, and stands in a certificate."""

_WEEK_S: Final = 7 * 86_400.0

RANGES: Final[Mapping[str, tuple[float, float]]] = {
    "cycle_interval_s": (0.01, 3_600),
    "action_deadline_s": (0.1, 3_600),
    "call_timeout_s": (0.1, 3_600),
    "workers": (1, 10_000),
    "default_grace_s": (0, 86_400),
    "list_timeout_s": (0.1, 3_600),
    "first_list_wait_s": (0, 86_400),
    "full_list_every": (1, 1_000_000),
    "full_list_every_declared": (1, 1_000_000),
    "list_missing_fraction": (0, 1),
    "list_missing_min": (1, 10_000_000),
    "list_missing_confirm_s": (0, _WEEK_S),
    "list_missing_settle_s": (0, _WEEK_S),
    "creating_deadline_s": (1, _WEEK_S),
    "configuring_deadline_s": (1, _WEEK_S),
    "draining_deadline_s": (1, _WEEK_S),
    "deleting_deadline_s": (1, _WEEK_S),
    "reclaim_fraction_max": (0, 1),
    "actions_per_cycle_max": (0, 10_000_000),
    "quarantine_rows_min": (1, 10_000_000),
    "quarantine_keep_fraction": (0, 1),
    "quarantine_confirmations": (1, 1_000),
    "quarantine_interval_s": (0, 3_600),
    "hint_interval_s": (0, 3_600),
    "slow_reader_s": (0.1, 3_600),
    "hold_on_demand_s": (0, 100 * _WEEK_S),
    "hold_spot_s": (0, 100 * _WEEK_S),
    "park_after": (1, 1_000_000),
    "reprobe_every": (1, 1_000_000),
    "breaker_window_s": (1, 86_400),
    "breaker_failures_min": (1, 1_000_000),
    "breaker_machine_fraction": (0, 1),
    "breaker_end_fraction": (0, 1),
    "breaker_open_s": (1, 86_400),
    "breaker_open_max_s": (1, 86_400),
    "decision_audit_every": (0, 1_000_000),
    "audit_file_bytes": (4_096, 1 << 40),
    "audit_files_max": (0, 1_000_000),
    "report_interval_s": (0.1, 3_600),
}
"""Least and greatest value of every number; a number that is none of them is refused too."""


@dataclass(frozen=True, kw_only=True)
class ShardConfig:
    """How fast, how far and where. What is decided only the engine's knobs change."""

    shard_id: str = "shard-0"
    """Who we are: letters, digits, dots, dashes; it never changes over the life of a shard."""

    listen: str = "127.0.0.1:7780"
    """Where sessions and questions are served by gRPC; port 0 picks a free one."""

    http: str = "127.0.0.1:8780"
    """Where /healthz, /readyz and /metrics are, on loopback; empty: nowhere."""

    data_dir: str = ""
    """What must survive a restart; else `shards/SHARD_ID` at home."""

    providers: tuple[str, ...] = ()
    """Whom to call for machines: `name=host:port` each."""

    domains: tuple[str, ...] = ()
    """The labels that make a machine ours, `key=value` each; none: every machine is."""

    coordinators: tuple[str, ...] = ()
    """Where coordinators are, `host:port` each; none: this shard is on its own."""

    advertise: str = ""
    """Where others reach this shard, `host:port`; else where it listens. Told to coordinators."""

    report_interval_s: float = 30.0
    """How often to report to the coordinator when nothing has happened."""

    joins: bool = False
    """Whether it takes no machine before a coordinator has assigned one of its domains: for a shard
    that joins others at their providers.
    """

    cycle_interval_s: float = 10.0
    """How often to look again when nothing has happened."""

    workers: int = 32
    """Actions at once through one provider; twice as many wait in its queue."""

    action_deadline_s: float = 30.0
    """An action ends no later than this after it was begun; its last call has what is left."""

    call_timeout_s: float = 10.0
    """How long one call to a provider may take."""

    default_grace_s: int = 30
    """How long workloads have to leave when their cluster could not be told."""

    list_timeout_s: float = 120.0
    """How long a list may take."""

    first_list_wait_s: float = 300.0
    """How long after a start nothing is acquired while a provider that was listed in an earlier
    life is not yet in this one: its machines may serve what is asked for. 0: not at all.
    """

    full_list_every: int = 30
    """Cycles by the clock (`cycle_interval_s`) between full lists of a provider whose lists of
    changes do not tell removals.
    """

    full_list_every_declared: int = 360
    """The same for one that declares that they do: what a bad line has swallowed comes back."""

    incremental_from_peers: bool = False
    """Whether a provider that declares nothing is asked for lists of changes, as some providers
    that were made for BigFleet can be; one that does not understand answers with a full list.
    """

    list_missing_fraction: float = 0.1
    """A full list that misses this share of a provider's machines or more must repeat itself."""

    list_missing_min: int = 10
    """If it misses at least so many; in any case one must that misses all, or half and two or more.
    """

    list_missing_confirm_s: float = 10.0
    """What a list misses is believed on the word of one that is asked for so much later."""

    list_missing_settle_s: float = 60.0
    """A provider that was silent or begins anew may still be finding its machines: what many are
    missing from its lists for so long is not believed.
    """

    creating_deadline_s: float = 1_800.0
    """A machine that is Creating for longer has failed."""

    configuring_deadline_s: float = 900.0
    """The same for Configuring."""

    draining_deadline_s: float = 1_800.0
    """The same for Draining; its grace is added."""

    deleting_deadline_s: float = 900.0
    """The same for Deleting."""

    actuation_paused: bool = False
    """The kill switch: everything is decided and nothing is done. No live control lifts it."""

    dry_run: bool = False
    """Shadow mode: what would be done is told and counted, and nothing is done."""

    reclaim_fraction_max: float = 0.05
    """Largest share of a cluster's machines reclaimed in one cycle, at least one; 0: no limit."""

    actions_per_cycle_max: int = 0
    """Most actions begun in one cycle; the next, with the rest, follows at once; 0: no limit."""

    quarantine: bool = True
    """Whether demand that collapses at once is held until it is confirmed."""

    quarantine_rows_min: int = 10
    """Demand of fewer rows is never held."""

    quarantine_keep_fraction: float = 0.1
    """Held is a roll-up that keeps less than this share of the rows before it, of all they asked
    for or, where the rows are the same, of a resource that `quarantine_rows_min` of them asked for.
    """

    quarantine_confirmations: int = 3
    """The one that is so many in a row, whatever each asks for, is believed."""

    quarantine_interval_s: float = 5.0
    """Half a cycle. One that comes sooner after the last that counted does not count; clusters roll
    up again by themselves, every 10 s.
    """

    hint_interval_s: float = 5.0
    """Least time between two hints to a cluster about one kind of need."""

    slow_reader_s: float = 30.0
    """A cluster that has not read for so long is cut off."""

    hold_on_demand_s: float = 600.0
    """How long an on-demand machine may idle before it is given back; 0 keeps it for good."""

    hold_spot_s: float = 60.0
    """How long a spot machine may idle before it is given back; 0 keeps it for good."""

    park_after: int = 8
    """Cycles without hope after which a gang stops trying."""

    reprobe_every: int = 32
    """A parked gang tries again every so many cycles."""

    breaker_rack_label: str = "topology.bigfleet/rack"
    """The label that names the rack; zone and instance type are watched as well."""

    breaker_window_s: float = 300.0
    """How long a failure or a loss counts towards a breaker."""

    breaker_failures_min: int = 5
    """Fewer failures and losses never open a breaker."""

    breaker_machine_fraction: float = 0.2
    """It opens when this share of the machines there has failed or was lost without notice."""

    breaker_end_fraction: float = 0.5
    """It opens, too, when this share of the steps that ended there has failed."""

    breaker_open_s: float = 60.0
    """How long nothing is bought there at first; each time in a row twice as long."""

    breaker_open_max_s: float = 900.0
    """And never longer than this."""

    decision_audit_every: int = 60
    """Cycles between full passes that must agree with the plan; 0: never."""

    audit_log: bool = True
    """Whether what became of every action is written down."""

    audit_dir: str = ""
    """Where; else `audit` in the data directory."""

    audit_file_bytes: int = 64 << 20
    """A file of the audit log that is as large as this is closed and the next one begun."""

    audit_files_max: int = 0
    """The oldest files beyond so many are deleted; 0 keeps all."""

    attribution_log: bool = False
    """Whether each cycle writes down which need claims what; large, for hunting defects."""

    tls_cert: str = ""
    """The certificate, in PEM."""

    tls_key: str = ""
    """Its private key, in PEM."""

    tls_ca: str = ""
    """The authority whose certificates are trusted, in PEM."""

    insecure: bool = False
    """Plaintext, on loopback only."""

    def __post_init__(self) -> None:
        require(
            _SHARD_ID.fullmatch(self.shard_id) is not None,
            f"shard.shard_id must be 1 to 63 letters, digits, dots, dashes: {self.shard_id[:80]!r}",
        )
        for name in ("listen", "http", "advertise"):
            _require_address(f"shard.{name}", getattr(self, name), optional=name != "listen")
        for address in self.coordinators:
            _require_address("each of shard.coordinators", address)
        for name, (least, most) in RANGES.items():
            value = getattr(self, name)
            require(
                least <= value <= most,
                f"shard.{name} must be between {least:g} and {most:g}: {value}",
            )
        require(
            self.breaker_open_s <= self.breaker_open_max_s,
            "shard.breaker_open_max_s must not be below shard.breaker_open_s: "
            f"{self.breaker_open_max_s} < {self.breaker_open_s}",
        )
        require(
            not self.joins or bool(self.coordinators),
            "shard.joins needs shard.coordinators: nobody else can assign a domain",
        )
        _ = self.provider_addresses, self.domain_labels

    @cached_property
    def provider_addresses(self) -> Mapping[str, str]:
        """The address of each provider, by name, in the order they were given."""
        return parse_providers(self.providers)

    @property
    def first_domains(self) -> frozenset[tuple[str, str]] | None:
        """What it owns before anything was assigned; None: everything."""
        return self.domain_labels if self.domains or self.joins else None

    @cached_property
    def domain_labels(self) -> frozenset[tuple[str, str]]:
        """The labels that make a machine ours; empty: all machines are."""
        return parse_domains(self.domains)


def parse_providers(entries: Iterable[str]) -> dict[str, str]:
    """`name=host:port` each, by name. The name is ours to choose and stands in metrics."""
    found: dict[str, str] = {}
    for entry in entries:
        name, equals, address = entry.partition("=")
        if not equals:
            raise Rejected(f"not a provider: {entry[:120]!r} (write name=host:port)")
        require(is_id(name), f"not a provider's name: {name[:80]!r} in {entry[:120]!r}")
        _require_address(f"the address of provider {name}", address)
        require(name not in found, f"two providers have one name: {name}")
        found[name] = address
    return found


def parse_domains(entries: Iterable[str]) -> frozenset[tuple[str, str]]:
    """`key=value` each: labels that machines of ours have."""
    found: set[tuple[str, str]] = set()
    for entry in entries:
        key, _, value = entry.partition("=")
        if not (key.strip() == key != "" and value.strip() == value != ""):
            raise Rejected(f"not a domain: {entry[:120]!r} (write key=value)")
        require((key, value) not in found, f"a domain is given twice: {entry}")
        found.add((key, value))
    return frozenset(found)


def _require_address(what: str, address: str, *, optional: bool = False) -> None:
    require(
        (optional and not address) or is_address(address),
        f"{what} must be HOST:PORT, the port at most {PORT_MAX}: {address}",
    )
