"""What `mainstay up` starts: a table of processes, from settings alone. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mainstay.config.api import RUNNING
from mainstay.config.up import UpConfig
from mainstay.config.world import PROVIDERS
from mainstay.model.profile import ZONE_KEY
from mainstay.providers.sim.offers import ZONES

SHARDS: Final[Mapping[str, tuple[str, ...]]] = {"shard-a": ZONES[:2], "shard-b": ZONES[2:]}
"""Each shard with its zones."""

CLUSTERS: Final[Mapping[str, str]] = {
    "blue": "shard-a", "green": "shard-a", "red": "shard-b",
}  # fmt: skip
"""Each cluster with its shard."""

USUAL_PORTS: Final[Mapping[str, int]] = {
    "world": 9000, "world-1": 9001, "world-2": 9002, "world-http": 8980,
    "coordinator": 7790, "coordinator-http": 8790,
    "shard-a": 7780, "shard-a-http": 8780,
    "shard-b": 7781, "shard-b-http": 8781,
    "api": 8800, "agents": 8801, "dashboard": 8700, "postgres": 8820,
}  # fmt: skip
"""Every port that is used, by what is there. The three of the world follow each other."""

COORDINATOR: Final = "coordinator-0"

TENANTS: Final = "tenants"
"""As which cluster tenancy asks for machines, of `shard-a`."""

CERTIFICATES: Final = (
    ("coordinator", COORDINATOR),
    *(("shard", name) for name in SHARDS),
    *(("cluster", name) for name in CLUSTERS),
    ("cluster", TENANTS),
    ("provider", "world"),
    ("admin", ""),
    ("readonly", ""),
)
"""Who gets one on the first start: kind and name."""

REPORT_S: Final = "5.0"
REBALANCE_S: Final = "15.0"
"""Brisker than a fleet needs, so that there is something to see."""

NODES: Final = "node-a,node-b"
"""Of the sample catalogue of tenancy."""

DATABASE: Final = ("--database", RUNNING)
"""One that starts again is waited for: nobody takes its place meanwhile."""

EVERYWHERE: Final[Mapping[str, str]] = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}
"""What a page listens to that is at every address of this machine, and one of them."""


@dataclass(frozen=True, slots=True)
class Part:
    """One process to start."""

    name: str
    """As people know it."""

    words: tuple[str, ...]
    """Behind `mainstay`."""

    after: tuple[str, ...] = ()
    """What must be ready before it is started."""

    ends: bool = False
    """Whether it is done when it ends, and not when it says that it is ready."""

    is_last: bool = False
    """Whether others still need it while they end."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Where all of it is."""

    config: UpConfig
    home: Path
    ports: Mapping[str, int]

    def at(self, what: str) -> str:
        """The address of something."""
        return f"127.0.0.1:{self.ports[what]}"

    @property
    def page_url(self) -> str:
        """Where people find the page; one that is everywhere, on this machine."""
        scheme = "https" if self.config.page_cert else "http"
        host, _, port = (self.config.page or self.at("dashboard")).rpartition(":")
        return f"{scheme}://{EVERYWHERE.get(host, host)}:{port}"

    @property
    def is_everywhere(self) -> bool:
        """Whether the page is at every address of this machine."""
        return self.config.page.rpartition(":")[0] in EVERYWHERE

    @property
    def pki(self) -> Path:
        """The folder with its certificates."""
        return self.home / "pki"

    def tls(self, file: str, kind: str = "tls") -> tuple[str, ...]:
        """The three flags of a process; `kind` is how they begin."""
        cert, key, ca = (str(self.pki / name) for name in (f"{file}.crt", f"{file}.key", "ca.crt"))
        return (f"--{kind}-cert", cert, f"--{kind}-key", key, f"--{kind}-ca", ca)


def parts(stage: Stage) -> tuple[Part, ...]:
    """All processes."""
    return tuple(_parts(stage))


def _parts(stage: Stage) -> Iterator[Part]:
    config = stage.config
    yield Part("engine", ("warm",), ends=True)  # once for both shards
    shards = [f"{cluster}={stage.at(shard)}" for cluster, shard in CLUSTERS.items()]
    yield Part(
        "world",
        ("world", "--machines", str(config.fleet), "--seed", str(config.seed),
         "--listen", stage.at("world"), "--http", stage.at("world-http"),
         "--pki", str(stage.pki),
         *_each("--shard", shards)),
    )  # fmt: skip
    yield Part(
        "coordinator",
        ("coordinator", "--id", COORDINATOR, "--store-file", str(stage.home / "coordinator.db"),
         "--listen", stage.at("coordinator"), "--http", stage.at("coordinator-http"),
         "--advertise", stage.at("coordinator"),
         "--report-interval", REPORT_S, "--rebalance-interval", REBALANCE_S,
         *stage.tls(f"coordinator-{COORDINATOR}")),
    )  # fmt: skip
    providers = [
        f"{name}={stage.at(f'world-{place}' if place else 'world')}"
        for place, name in enumerate(PROVIDERS)
    ]
    for name, zones in SHARDS.items():
        yield Part(
            name,
            ("shard", "--id", name, "--data-dir", str(stage.home / "shards" / name),
             "--listen", stage.at(name), "--http", stage.at(f"{name}-http"),
             "--advertise", stage.at(name), "--coordinator", stage.at("coordinator"),
             "--cycle-interval", str(config.cycle_interval_s), "--report-interval", REPORT_S,
             *_each("--domain", [f"{ZONE_KEY}={zone}" for zone in zones]),
             *_each("--provider", providers), *stage.tls(f"shard-{name}")),
            after=("engine", "world", "coordinator"),
        )  # fmt: skip
    yield _dashboard(stage)
    if config.tenancy:
        yield Part("postgres", ("postgres", "--port", str(stage.ports["postgres"])), is_last=True)
        yield Part("catalogue", ("tenancy", "init", *DATABASE), after=("postgres",), ends=True)
        yield _tenancy(stage)


def _tenancy(stage: Stage) -> Part:
    """With the bridge in it: it dials the shard again and again, so it does not wait for it."""
    cluster = (
        "--shard", stage.at("shard-a"), "--cluster-id", TENANTS,
        *stage.tls(f"cluster-{TENANTS}", "cluster"), "--simulate-machines",
    )  # fmt: skip
    return Part(
        "tenancy",
        ("api", "--all", "--simulate", NODES, *DATABASE,
         "--listen", stage.at("api"), "--agents", stage.at("agents"), *cluster),
        after=("catalogue",),
    )  # fmt: skip


def _dashboard(stage: Stage) -> Part:
    config = stage.config
    own = ("--page-cert", config.page_cert, "--page-key", config.page_key)
    listen = config.page or stage.at("dashboard")
    return Part("dashboard", ("dashboard", "--listen", listen, *(own if config.page_cert else ())))


def _each(flag: str, values: Sequence[str]) -> tuple[str, ...]:
    return tuple(word for value in values for word in (flag, value))
