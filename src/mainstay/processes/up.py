"""`mainstay up`: all of it on this machine, under one supervisor, until it is told to stop.

The processes are those that also run alone. They die with the supervisor, whatever kills it; one
that dies by itself is started again. What was there is there again at the next start.
"""

import fcntl
import json
import os
import shutil
import signal
import socket
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Final

from mainstay.config.up import UpConfig
from mainstay.model.errors import Rejected, Unavailable
from mainstay.processes import certs
from mainstay.processes.up_plan import (
    CERTIFICATES,
    SHARDS,
    USUAL_PORTS,
    Part,
    Stage,
    parts,
    shard_settings,
)
from mainstay.runtime.children import Child, Children
from mainstay.runtime.clock import Clock

READY_S: Final = 120.0
"""How long a process may take to be ready."""

FIRST_NODE_S: Final = 120.0
LOOK_S: Final = 0.2
PAUSE_S: Final = 1.0
PAUSE_MAX_S: Final = 30.0
CALM_S: Final = 60.0
"""A process that has run so long has not failed again: its next restart is a first one."""

DAYS: Final = 365
RENEW_DAYS: Final = 30

OURS: Final = (
    "audit", "cache", "coordinator.db", "coordinator.db-shm", "coordinator.db-wal", "dashboard",
    "log", "pki", "postgres", "providers", "run", "shards", "tenancy",
    *(f"{name}.toml" for name in SHARDS),
)  # fmt: skip
"""What `--reset` removes below the home directory, and nothing else."""

Say = Callable[[str], None]


@dataclass(slots=True)
class Watched:
    """A process and how often it had to be started."""

    part: Part
    child: Child
    started_s: float
    failures: int = 0
    again_s: float | None = None
    """When it is started again, if it has died."""


@dataclass(frozen=True, slots=True)
class Starting:
    """A process that is not ready yet."""

    part: Part
    child: Child
    since_s: float


@dataclass(slots=True)
class Supervisor:
    """All processes of one `mainstay up`."""

    stage: Stage
    clock: Clock
    say: Say
    children: Children
    began_s: float
    watched: list[Watched] = field(default_factory=list)
    is_told: bool = False
    first_node_s: float | None = None
    """How long after the beginning some cluster had a machine that serves."""

    def start(self) -> None:
        """Everything, each when what it stands on is ready; ends early if told to stop."""
        waiting, starting = list(parts(self.stage)), dict[str, Starting]()
        ready: set[str] = set()
        while (waiting or starting) and not self.is_told:
            for part in [each for each in waiting if ready.issuperset(each.after)]:
                waiting.remove(part)
                starting[part.name] = Starting(part, self._begin(part), self.clock.elapsed_s())
            for each in [each for each in starting.values() if self._is_ready(each)]:
                del starting[each.part.name]
                ready.add(each.part.name)
                if not each.part.ends:
                    self.watched.append(Watched(each.part, each.child, each.since_s))
                self.say(f"  {each.part.name:12} ready after {self._since(each.since_s):4.1f} s")
            self._see_first_node()
            time.sleep(LOOK_S / 4)

    def wait_first_node(self) -> None:
        """Until some cluster has a machine that serves, if that does not take too long."""
        until_s = self.clock.elapsed_s() + FIRST_NODE_S
        while self.first_node_s is None and self.clock.elapsed_s() < until_s and not self.is_told:
            self.look()
            self._see_first_node()
            time.sleep(LOOK_S)

    def look(self) -> None:
        """Start again what has died, after a pause that grows."""
        now_s = self.clock.elapsed_s()
        for watched in self.watched:
            if watched.child.is_running:
                continue
            if watched.again_s is None:
                self._died(watched, now_s)
            elif watched.again_s <= now_s:
                watched.child, watched.started_s = self._begin(watched.part), now_s
                watched.again_s = None

    def run(self) -> None:
        """Watch over them until told to stop."""
        while not self.is_told:
            self.look()
            time.sleep(LOOK_S)

    def _begin(self, part: Part) -> Child:
        return self.children.command(part.name, part.words)

    def _died(self, watched: Watched, now_s: float) -> None:
        calm = now_s - watched.started_s > CALM_S
        watched.failures = 1 if calm else watched.failures + 1
        pause_s = min(PAUSE_MAX_S, PAUSE_S * 2 ** (watched.failures - 1))
        watched.again_s = now_s + pause_s
        name, code = watched.part.name, watched.child.process.returncode
        self.say(f"{name} has died ({code}), see {watched.child.log}: again in {pause_s:.0f} s")

    def _is_ready(self, starting: Starting) -> bool:
        part, child = starting.part, starting.child
        if (child.process.poll() == 0) if part.ends else (child.announced() is not None):
            return True
        if not child.is_running:
            raise Unavailable(f"{part.name} did not start: {_last_line(child)}")
        if self._since(starting.since_s) > READY_S:
            raise Unavailable(f"{part.name} was not ready in {READY_S:.0f} s: see {child.log}")
        return False

    def _see_first_node(self) -> None:
        shards = {each.part.name for each in self.watched} & SHARDS.keys()
        waited = self.first_node_s is None and shards
        if waited and any(each["serving"] for each in self._clusters().values()):
            self.first_node_s = self._since(self.began_s)

    def _since(self, at_s: float) -> float:
        return self.clock.elapsed_s() - at_s

    def _clusters(self) -> Mapping[str, Mapping[str, int]]:
        url = f"http://{self.stage.at('world-http')}/clusters"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                told: Mapping[str, Mapping[str, int]] = json.load(answer)
        except (OSError, ValueError):
            return {}
        return told


def bring_up(
    config: UpConfig, home: Path, clock: Clock, say: Say, *, reset: bool, once: bool
) -> float | None:
    """Start everything and, unless it is only once, watch over it until a signal.

    Returns how long it took to the first node; None if there was none.
    """
    began_s = clock.elapsed_s()
    with _alone(home):
        if reset:
            _reset(home)
        _clear(home)
        ports = _free_ports() if config.free_ports else USUAL_PORTS
        stage = Stage(config, home, ports)
        _check_ports(stage)
        _certified(home, clock)
        for name in SHARDS:
            _write(home / f"{name}.toml", shard_settings(stage, name))
        say(f"Starting {len(parts(stage))} processes; their logs are in {home / 'log'}.")
        with Children(home) as children:
            all_ = Supervisor(stage, clock, say, children, began_s)
            with _told(all_):
                all_.start()
                all_.wait_first_node()
                if not all_.is_told:
                    _tell(say, stage, all_.first_node_s)
                if not once:
                    all_.run()
                say("Stopping ...")
                for child in children:
                    child.terminate()
    say("Stopped.")
    return all_.first_node_s


def _tell(say: Say, stage: Stage, took_s: float | None) -> None:
    if took_s is None:
        say(f"No cluster has a node yet: see the logs in {stage.home / 'log'}.")
    else:
        say(f"The first node serves after {took_s:.1f} s.")
    say(f"The page: http://{stage.at('dashboard')} (sign in with a token from")
    say(f"  {stage.home / 'dashboard' / 'tokens'})")
    say("In another terminal, try:")
    say(f"  export MAINSTAY_HOME={stage.home}")
    say("  mainstay top")
    say("  mainstay get clusters")
    say("  mainstay explain cluster blue")
    say("Ctrl-C stops everything.")


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    """One supervisor per home; the system takes the lock back from one that dies."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        lock = os.open(home / "up.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        message = f"cannot use {home}: {error.strerror}; set MAINSTAY_HOME to a folder of yours"
        raise Rejected(message) from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Rejected(f"mainstay up runs in {home} already: stop it first") from error
        yield
    finally:
        os.close(lock)


def _reset(home: Path) -> None:
    for name in OURS:
        path = home / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _clear(home: Path) -> None:
    """What processes of an earlier start say of themselves is no longer so: all died with it."""
    for path in (home / "run").glob("*.json"):
        path.unlink(missing_ok=True)
    shutil.rmtree(home / "log", ignore_errors=True)


def _free_ports() -> dict[str, int]:
    """A free port for everything; those of the world must follow each other."""
    for first in range(20_000, 60_000, 4):
        if all(_is_free(port) for port in range(first, first + 3)):
            break
    else:
        raise Unavailable("no three free ports in a row")
    world = {"world": first, "world-1": first + 1, "world-2": first + 2}
    with contextmanager(_bound)() as others:
        names = [name for name in USUAL_PORTS if name not in world]
        return {**world, **{name: next(others) for name in names}}


def _bound() -> Iterator[Iterator[int]]:
    """Ports that nobody else gets while the block runs, each another one."""
    held: list[socket.socket] = []

    def ports() -> Iterator[int]:
        while True:
            free = socket.socket()
            held.append(free)
            free.bind(("127.0.0.1", 0))
            yield int(free.getsockname()[1])

    try:
        yield ports()
    finally:
        for each in held:
            each.close()


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _check_ports(stage: Stage) -> None:
    taken = [name for name, port in stage.ports.items() if not _is_free(port)]
    if taken:
        which = ", ".join(f"{stage.ports[name]} ({name})" for name in taken)
        raise Rejected(f"taken by another program: port {which}; stop it, or give --free-ports")


def _certified(home: Path, clock: Clock) -> None:
    """An authority and a certificate for each process, made once and renewed before they end."""
    folder, now = home / certs.FOLDER, datetime.fromtimestamp(clock.now_s(), UTC)
    if not (folder / "ca.crt").exists():
        certs.init(folder, now, days=10 * DAYS)
    for kind, name in CERTIFICATES:
        holder = certs.holder_of(kind, name)
        if certs.days_left(folder, holder, now) < RENEW_DAYS:
            certs.issue(folder, holder, now, days=DAYS)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Rejected(f"cannot write {path}: {error.strerror}") from error


@contextmanager
def _told(supervisor: Supervisor) -> Iterator[Supervisor]:
    """Signals tell it to stop."""

    def stop(_: int, __: FrameType | None) -> None:
        supervisor.is_told = True

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield supervisor
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _last_line(child: Child) -> str:
    lines = [line for line in child.tail().splitlines() if line.strip()]
    return lines[-1] if lines else f"it said nothing; exit code {child.process.returncode}"
