"""A run: look at the provider, make every check that applies, give back what was borrowed."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from mainstay.conformance.borrowed import CREATE_FAULT, Borrowed
from mainstay.conformance.caller import Caller
from mainstay.conformance.check import ASKED_FOR, Broken, Check, Gate, NotRun, Part, Together
from mainstay.conformance.limits import Limits
from mainstay.conformance.report import Outcome, Report, Result
from mainstay.conformance.restarts import Restarts
from mainstay.conformance.trial import Subject, Trial
from mainstay.model.errors import Rejected, Unavailable
from mainstay.model.profile import CapacityType
from mainstay.model.state import state_of
from mainstay.runtime.clock import Clock
from mainstay.wire.raw_calls import Line, Record, Reply

HELD = frozenset({CapacityType.BARE_METAL, CapacityType.RESERVED})
"""A fleet of these alone has no quota slots by its nature."""

DENIED = frozenset({"PERMISSION_DENIED", "UNAUTHENTICATED"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What to examine, and how."""

    name: str
    """The provider, for the report."""

    connect: Callable[[], AbstractAsyncContextManager[Line]]
    checks: Sequence[Check]
    clock: Clock
    limits: Limits = field(default_factory=Limits)
    restart: Callable[[], Awaitable[None]] | None = None
    torment: bool = False
    seed: int = 1
    """Of everything drawn by chance."""

    stamp: str = "0"
    """In every name a run makes up: two runs at one provider must not share one."""

    told: Callable[[Result], None] = lambda _: None
    """Called when a check ends."""


async def examine(run: Run) -> Report:
    """The whole run. Raises only if the provider cannot be reached or does not let us in."""
    began_s = run.clock.elapsed_s()
    async with run.connect() as line:
        caller = Caller(line)
        first = await _first_look(caller)
        fleet = await caller.everything()
        subject = await _subject(run, caller, first, list(fleet.values()))
        results = await _Runner(run, subject, line).all()
        left = await _clean_up(caller, subject)
    return Report(
        name=run.name,
        results=tuple(sorted(results, key=lambda result: _place(run.checks, result.check))),
        found={str(state): count for state, count in subject.borrowed.by_state().items()},
        touched=len(subject.borrowed.touched),
        left=tuple(left),
        seconds=run.clock.elapsed_s() - began_s,
        seed=run.seed,
    )


async def _first_look(caller: Caller) -> Reply:
    """One list, so that a provider that is not there is one error and not a hundred."""
    try:
        return await caller.list()
    except Broken as error:
        told = str(error)
        if any(status in told for status in DENIED):
            advice = "use a certificate for bigfleet://admin"
            raise Rejected(f"the provider does not let us in: {told} ({advice})") from error
        raise Unavailable(f"the provider cannot be listed: {told}") from error


async def _subject(run: Run, caller: Caller, first: Reply, fleet: Sequence[Record]) -> Subject:
    ghost = f"conformance-ghost-{run.stamp}"
    made, deleted = await caller.create(ghost), await caller.delete(ghost)
    if made.status in DENIED:
        advice = "use a certificate for bigfleet://admin, which may act in any shard's name"
        raise Rejected(f"the provider lets us read, not act: {made.details} ({advice})")
    known = [record for record in fleet if state_of(record.state) is not None]
    borrowed = Borrowed(caller, known, run.limits)
    borrowed.deletes = deleted.status != "UNIMPLEMENTED"
    restarts = Restarts(run.restart and (lambda: _restart(run, caller)))
    declared = first.capabilities
    has = {
        Gate.SPECULATIVE: borrowed.has_slots or not _is_held(fleet),
        Gate.DELETE: borrowed.deletes,
        Gate.REVISION: bool(first.cursor),
        Gate.PAGING: declared is not None and declared.paging,
        Gate.INCREMENTAL: declared is not None and declared.incremental,
        Gate.FAULTS: any(CREATE_FAULT in record.labels.items() for record in fleet),
        Gate.SCALE: len(fleet) >= run.limits.scale_machines,
        Gate.TORMENT: run.torment,
        Gate.RESTART: restarts.possible,
    }
    return Subject(
        connect=run.connect,
        borrowed=borrowed,
        capabilities=declared,
        closed=frozenset(gate for gate, is_open in has.items() if not is_open),
        limits=run.limits,
        restarts=restarts,
        clock=run.clock,
        seed=run.seed,
        stamp=run.stamp,
    )


async def _restart(run: Run, caller: Caller) -> None:
    """Restart the provider, and wait until it answers again."""
    if run.restart is None:
        raise AssertionError("a restart that nobody told how to do")
    await run.restart()
    reply = await caller.seen("conformance-ghost")
    began_s = run.clock.elapsed_s()
    while reply.status in {"UNAVAILABLE", "DEADLINE_EXCEEDED"}:
        if run.clock.elapsed_s() - began_s > run.limits.step_s:
            raise Broken(f"it does not answer after its restart: {reply.details}")
        await asyncio.sleep(run.limits.poll_s)
        reply = await caller.seen("conformance-ghost")


def _is_held(fleet: Sequence[Record]) -> bool:
    return bool(fleet) and all(record.capacity_type in HELD for record in fleet)


class _Runner:
    """Makes checks: most side by side, some alone, those about a restart together."""

    def __init__(self, run: Run, subject: Subject, line: Line) -> None:
        self._run = run
        self._subject = subject
        self._line = line
        self._results: list[Result] = []
        self._turns = asyncio.Semaphore(run.limits.at_once)
        self._until_s = run.clock.elapsed_s() + run.limits.all_s

    async def all(self) -> list[Result]:
        """Every check of the run, once."""
        applying = list(self._applying())
        together = [check for check in applying if check.together is Together.ANY]
        await self._side_by_side(sorted(together, key=lambda c: c.part is not Part.FAULT))
        for check in applying:
            if check.together is Together.NOTHING:
                await self._one(check)
        restarting = [c for c in applying if c.together is Together.RESTARTS]
        self._subject.restarts.expect(len(restarting))
        self._turns = asyncio.Semaphore(len(restarting) or 1)  # all of them must get to wait
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._subject.restarts.run())
            for check in restarting:
                tasks.create_task(self._one(check))
        return self._results

    def _applying(self) -> Iterator[Check]:
        for check in self._run.checks:
            shut = sorted(check.gates & self._subject.closed)
            if shut:
                asked = set(shut) <= ASKED_FOR
                outcome = Outcome.NOT_ASKED if asked else Outcome.NOT_APPLICABLE
                self._tell(Result(check, outcome, shut[0].value))
            else:
                yield check

    async def _side_by_side(self, checks: Sequence[Check]) -> None:
        """Those that wait longest come first: what fails by a time-out."""
        async with asyncio.TaskGroup() as tasks:
            for check in checks:
                tasks.create_task(self._one(check))

    async def _one(self, check: Check) -> None:
        async with self._turns:
            trial = Trial(check.id, self._subject, self._line)
            began_s = self._run.clock.elapsed_s()
            outcome, why = await self._made(check, trial)
            if check.together is Together.RESTARTS:
                self._subject.restarts.leave()
            await self._subject.borrowed.give_back(trial.borrowed)
            self._tell(Result(check, outcome, why, self._run.clock.elapsed_s() - began_s))

    async def _made(self, check: Check, trial: Trial) -> tuple[Outcome, str]:
        limit_s = self._run.limits.check_s
        if self._run.clock.elapsed_s() >= self._until_s:
            return Outcome.NOT_RUN, f"time is up: {self._run.limits.all_s:g} s"
        try:
            async with asyncio.timeout(limit_s):
                await check.run(trial)
        except NotRun as error:
            return Outcome.NOT_RUN, str(error)
        except Broken as error:
            return Outcome.FAILED, str(error)
        except TimeoutError:
            return Outcome.FAILED, f"it did not come to an end within {limit_s:g} s"
        except Exception as error:  # noqa: BLE001 - the boundary: one check spoils no other
            return Outcome.FAILED, f"the check broke: {type(error).__name__}: {error}"
        return Outcome.PASSED, ""

    def _tell(self, result: Result) -> None:
        self._results.append(result)
        self._run.told(result)


async def _clean_up(caller: Caller, subject: Subject) -> list[str]:
    borrowed = subject.borrowed
    try:
        async with asyncio.timeout(subject.limits.step_s * 2):
            await borrowed.restore()
            return borrowed.left((await caller.everything()).values())
    except TimeoutError:
        return ["giving back did not end in time"]
    except Broken as error:
        return [f"giving back did not end well: {error}"]


def _place(checks: Sequence[Check], check: Check) -> int:
    return list(checks).index(check)
