"""`mainstay up`: all of it on this machine, under one supervisor, until it is told to stop.

The processes are those that also run alone. They die with the supervisor, whatever kills it, and
what is still dying then, or cannot be told to, ends before the next start; one that dies by itself
is started again. What was there is there again at the next start.
"""

import json
import signal
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import Final

from mainstay.config.up import UpConfig
from mainstay.model.errors import Unavailable
from mainstay.processes.up_ground import (
    FAILED_LOG,
    GIVES_NO_MORE,
    OF_THE_DISK,
    filled,
    has_begun,
    has_started,
    lacking,
    prepared,
)
from mainstay.processes.up_plan import SHARDS, Part, Stage, parts
from mainstay.processes.up_told import Progress, Standing, Voice
from mainstay.runtime.children import Child, Children
from mainstay.runtime.clock import Clock

READY_S: Final = 120.0
"""How long a process may take to be ready."""

DONE_S: Final = 600.0
"""How long one may take that ends: a slow machine compiles the engine's loops for minutes, once."""

FIRST_NODE_S: Final = 120.0
LOOK_S: Final = 0.2
PAUSE_S: Final = 1.0
PAUSE_MAX_S: Final = 30.0
CALM_S: Final = 60.0
"""A process that has run so long has not failed again: its next restart is a first one."""


class NotStarted(Unavailable):
    """A process did not come to serve, or not for long; none of them runs now."""

    code = "not_started"
    what_to_do = f"read its log, which the next start keeps in {FAILED_LOG}"


@dataclass(slots=True)
class Watched:
    """A process and how often it had to be started."""

    part: Part
    child: Child
    started_s: float
    failures: int = 0
    again_s: float | None = None
    """When it is started again, if it has died."""

    lacks_room: bool = False
    """Whether it has been told that it dies of a full disk: that is told once."""


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
    voice: Voice
    children: Children
    began_s: float
    starting: dict[str, Starting] = field(default_factory=dict)
    took_s: dict[str, float] = field(default_factory=dict)
    """How long each process took that is ready."""

    watched: list[Watched] = field(default_factory=list)
    is_told: bool = False
    first_node_s: float | None = None
    """How long after the beginning some cluster had a machine that serves."""

    def start(self) -> None:
        """Everything, each when what it stands on is ready; ends early if told to stop."""
        waiting = list(parts(self.stage))
        while (waiting or self.starting) and not self.is_told:
            for part in [each for each in waiting if self.took_s.keys() >= {*each.after}]:
                waiting.remove(part)
                begun = Starting(part, self._first(part), self.clock.elapsed_s())
                self.starting[part.name] = begun
            for each in [each for each in self.starting.values() if self._is_ready(each)]:
                del self.starting[each.part.name]
                self.took_s[each.part.name] = self._since(each.since_s)
                if not each.part.ends:
                    self.watched.append(Watched(each.part, each.child, each.since_s))
            self._check_alive()
            self._see_first_node()
            self.voice.show(self.standings())
            time.sleep(LOOK_S / 4)
        if not self.is_told:
            has_started(self.stage.home)

    def standings(self) -> list[Standing]:
        """How far each process is, in the order in which they are begun."""
        found = []
        for part in parts(self.stage):
            if part.name in self.took_s:
                found.append(Standing(part.name, Progress.READY, self.took_s[part.name]))
            elif part.name in self.starting:
                since_s = self.starting[part.name].since_s
                found.append(Standing(part.name, Progress.STARTING, self._since(since_s)))
            else:
                found.append(Standing(part.name, Progress.WAITING))
        return found

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
                self._again(watched, now_s)

    def run(self) -> None:
        """Watch over them until told to stop."""
        while not self.is_told:
            self.look()
            time.sleep(LOOK_S)

    def stop(self) -> None:
        """Tell all at once, but for what they need to end; nobody may hear of it any more."""
        with suppress(OSError):
            self.voice.say("Stopping ...")
        last = {part.name for part in parts(self.stage) if part.is_last}
        for child in self.children:
            if child.name not in last:
                child.terminate()

    def _begin(self, part: Part) -> Child:
        child = self.children.command(part.name, part.words)
        has_begun(self.stage.home, part.name, child.pid)
        return child

    def _first(self, part: Part) -> Child:
        """A system that makes no process now is told of in one line, and all others end."""
        try:
            return self._begin(part)
        except OSError as error:
            if error.errno in OF_THE_DISK:
                raise
            raise NotStarted(
                f"{part.name} cannot be started: {error.strerror}", what_to_do=GIVES_NO_MORE
            ) from error

    def _again(self, watched: Watched, now_s: float) -> None:
        """A system that makes no process now, or takes no log, is no reason to end the others."""
        try:
            watched.child, watched.started_s = self._begin(watched.part), now_s
        except OSError as error:
            watched.again_s = now_s + PAUSE_MAX_S
            if not watched.lacks_room:
                with suppress(OSError):
                    cannot = f"{watched.part.name} cannot be started: {error.strerror}"
                    self.voice.say(f"{cannot}; again in {PAUSE_MAX_S:.0f} s")
        else:
            watched.again_s = None

    def _died(self, watched: Watched, now_s: float) -> None:
        calm = now_s - watched.started_s > CALM_S
        watched.failures = 1 if calm else watched.failures + 1
        pause_s = min(PAUSE_MAX_S, PAUSE_S * 2 ** (watched.failures - 1))
        watched.again_s = now_s + pause_s
        died = f"{watched.part.name} has died ({watched.child.process.returncode})"
        full = filled(self.stage.home)
        with suppress(OSError):  # what we say may be written to that very disk
            if full and not watched.lacks_room:
                self.voice.say(f"{died}: {full}; make room, and it goes on by itself")
            elif not full:
                self.voice.say(f"{died}, see {watched.child.log}: again in {pause_s:.0f} s")
        watched.lacks_room = bool(full)

    def _is_ready(self, starting: Starting) -> bool:
        part, child = starting.part, starting.child
        if (child.process.poll() == 0) if part.ends else (child.announced() is not None):
            return True
        if not child.is_running:
            why = lacking(self.stage) or _last_line(child)
            raise NotStarted(f"{part.name} did not start: {why} (see {child.log})")
        patience_s = DONE_S if part.ends else READY_S
        if self._since(starting.since_s) > patience_s:
            raise NotStarted(f"{part.name} was not ready in {patience_s:.0f} s: see {child.log}")
        return False

    def _check_alive(self) -> None:
        """One that dies while others start keeps them from it: that is said at once."""
        for name, child in ((each.part.name, each.child) for each in self.watched):
            if not child.is_running:
                code, lack = child.process.returncode, lacking(self.stage)
                why = f"{lack}; " if lack else ""
                message = f"{name} has died ({code}) while others started"
                raise NotStarted(f"{message}: {why}see {child.log}")

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
    config: UpConfig, children: Children, clock: Clock, voice: Voice, *, reset: bool, once: bool
) -> float | None:
    """Start everything and, unless it is only once, watch over it until a signal.

    Returns how long it took to the first node; None if there was none.
    """
    began_s, home = clock.elapsed_s(), children.home
    with prepared(config, home, clock, reset=reset) as stage:
        count = sum(not part.ends for part in parts(stage))
        voice.say(f"Starting {count} processes; their logs are in {home / 'log'}.")
        with children:
            all_ = Supervisor(stage, clock, voice, children, began_s)
            with _told(all_):
                all_.start()
                all_.wait_first_node()
                if not all_.is_told:
                    _tell(voice, stage, all_.first_node_s)
                if not once:
                    all_.run()
                all_.stop()
    with suppress(OSError):
        voice.say("Stopped.")
    return all_.first_node_s


def _tell(voice: Voice, stage: Stage, took_s: float | None) -> None:
    say = voice.say
    if took_s is None:
        say(f"No cluster has a node yet: see the logs in {stage.home / 'log'}.")
    else:
        say(f"The first node serves after {took_s:.1f} s.")
    everywhere = ", and at every other address of this machine" if stage.is_everywhere else ""
    say(f"The page: {stage.page_url}{everywhere} (sign in with a token from")
    say(f"  {stage.home / 'dashboard' / 'tokens'})")
    say("In another terminal, try:")
    say(f"  export MAINSTAY_HOME={stage.home}")
    say("  mainstay top")
    say("  mainstay explain gang blue ensemble")
    say("  mainstay whatif --shard shard-a --lose-zone use1-az2")
    say("Ctrl-C stops everything.")


@contextmanager
def _told(supervisor: Supervisor) -> Iterator[Supervisor]:
    """Signals tell it to stop."""

    def stop(_: int, __: FrameType | None) -> None:
        supervisor.is_told = True

    heard = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as `nohup` has it
        heard.append(signal.SIGHUP)
    before = {number: signal.signal(number, stop) for number in heard}
    try:
        yield supervisor
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _last_line(child: Child) -> str:
    lines = [line for line in child.tail().splitlines() if line.strip()]
    return lines[-1] if lines else f"it said nothing; exit code {child.process.returncode}"
