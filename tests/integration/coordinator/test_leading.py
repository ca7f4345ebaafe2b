"""Who leads: won by one, kept while the store answers, given back when nobody acts on it."""

import asyncio
from pathlib import Path
from typing import Final

import pytest
from typing_extensions import override

import virtual_loop
from candidates import EAGER, Candidate, closing, running, until_true
from mainstay.coordinator.embedded import EmbeddedStore
from mainstay.coordinator.leading import Leading, Reign
from mainstay.coordinator.store import Change, Deposed, Everything, Leader, Leadership
from mainstay.model.errors import Rejected, Unavailable
from mainstay.runtime.clock import StepClock, SystemClock
from virtual_loop import LoopClock

LONG_S: Final = 3_600.0
"""A lease that ends in no test."""


class Stage:
    """Two stores on one file, the second to look from outside."""

    def __init__(self, path: Path, *, lease_s: float = LONG_S) -> None:
        self.store = EmbeddedStore(path / "c.db", clock=SystemClock(), lease_s=lease_s)
        self.outside = EmbeddedStore(path / "c.db", clock=SystemClock(), lease_s=lease_s)

    def leading(self) -> Leading:
        return Leading(
            self.store, candidate="one", address="one:1", clock=SystemClock(), options=EAGER
        )


def test_one_leads_the_others_know_where_and_when_it_stops_another_leads_at_once(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        stage = Stage(tmp_path)
        first, second = Candidate(stage.store, "one"), Candidate(stage.outside, "two")
        async with closing([stage.store, stage.outside]):
            async with first.running():
                await until_true(lambda: first.acts)
                led = Leader("one", "one:1", first.reigns[0].term)
                async with second.running():
                    await until_true(lambda: second.leading.leader)
                    assert first.leading.leader == second.leading.leader == led
                    assert [one.leading.reign for one in (first, second)] == [*first.reigns, None]
                assert not second.reigns
            assert first.leading.reign is None
            assert await stage.outside.leader() is None
            async with second.running():
                await until_true(lambda: second.acts)
            assert second.reigns[0].term > first.reigns[0].term

    asyncio.run(scenario())


@pytest.mark.parametrize("trouble", [None, Unavailable("for a moment"), Deposed("they say")])
def test_a_rule_that_ends_or_fails_for_the_moment_steps_down_and_campaigns_again(
    tmp_path: Path, trouble: Exception | None
) -> None:
    async def scenario() -> None:
        stage, reigns = Stage(tmp_path), list[Reign]()

        async def rule(reign: Reign) -> None:
            assert all(not before.is_valid() for before in reigns)
            reigns.append(reign)
            if trouble:
                raise trouble

        async with closing([stage.store, stage.outside]), running(stage.leading().run(rule)):
            await until_true(lambda: len(reigns) > 2)
        terms = [reign.term for reign in reigns]
        assert terms == sorted(set(terms))

    asyncio.run(scenario())


@pytest.mark.parametrize("trouble", [Rejected("corrupt"), ZeroDivisionError()])
def test_a_rule_that_fails_for_good_ends_the_candidate_and_gives_the_lease_back(
    tmp_path: Path, trouble: Exception
) -> None:
    async def scenario() -> None:
        stage = Stage(tmp_path)

        async def rule(reign: Reign) -> None:
            raise trouble

        async with closing([stage.store, stage.outside]):
            with pytest.raises(type(trouble)):
                await stage.leading().run(rule)
            assert await stage.outside.leader() is None

    asyncio.run(scenario())


def test_a_lease_is_renewed_while_the_rule_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        stage = Stage(tmp_path, lease_s=1.0)
        one = Candidate(stage.store, "one")
        async with closing([stage.store, stage.outside]), one.running():
            await until_true(lambda: one.acts)
            assert not await stage.outside.leaderless(patience_s=3.0)
            assert len(one.reigns) == 1
            assert await one.reigns[0].commit(Change(puts={"a": b"1"}))

    asyncio.run(scenario())


def test_a_write_that_is_refused_because_another_leads_ends_the_reign_at_once(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        stage = Stage(tmp_path)
        one = Candidate(stage.store, "one")
        async with closing([stage.store, stage.outside]), one.running():
            await until_true(lambda: one.acts)
            reign = one.reigns[0]
            await stage.outside.resign(reign.term)
            assert await stage.outside.campaign(candidate="two", address="two:1")
            assert reign.is_valid()  # it cannot know
            with pytest.raises(Deposed):
                await reign.commit(Change(puts={"a": b"late"}))
            assert not reign.is_valid()
            await until_true(lambda: one.late)
            assert one.late == ["deposed"]
            await until_true(lambda: one.leading.leader and one.leading.leader.candidate == "two")

    asyncio.run(scenario())


class Hanging(EmbeddedStore):
    """A store that does not answer those who renew."""

    @override
    async def renew(self, term: int) -> None:
        await asyncio.Event().wait()


def test_a_leader_whom_the_store_does_not_answer_stops_before_another_can_lead(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        stage = Stage(tmp_path, lease_s=2.0)
        stage.store = Hanging(tmp_path / "c.db", clock=SystemClock(), lease_s=2.0)
        led_by = list[Leader | None]()

        async def rule(reign: Reign) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                assert not reign.is_valid()
                with pytest.raises(Deposed):
                    await reign.commit(Change(puts={"a": b"late"}))
                led_by.append(await stage.outside.leader())

        async with closing([stage.store, stage.outside]), running(stage.leading().run(rule)):
            await until_true(lambda: led_by)
            assert led_by[0]
            assert led_by[0].candidate == "one"
            assert not (await stage.outside.load()).entries

    asyncio.run(scenario())


class Kept(Leadership):
    """One that the store always keeps."""

    term = 7

    @override
    async def renew(self) -> None: ...

    @override
    async def commit(self, change: Change) -> int:
        return 8

    @override
    async def resign(self) -> None: ...


def test_a_reign_that_is_over_stays_over() -> None:
    async def scenario() -> None:
        clock = StepClock()
        reign = Reign(Kept(), clock, until_s=10.0)
        clock.advance(9.0)
        reign.extend(until_s=12.0)
        clock.advance(2.9)
        assert reign.is_valid()
        assert await reign.commit(Change()) == 8

        clock.advance(0.1)
        reign.extend(until_s=20.0)  # an answer that came too late
        assert not reign.is_valid()
        with pytest.raises(Deposed, match="term 7 has run out"):
            await reign.commit(Change())

    asyncio.run(scenario())


class Slow(Kept):
    """A store that hears at once and answers late, and does neither from some moment on."""

    lease_s = 2.0
    label = "slow"

    def __init__(self, *, answer_s: float, silent_from_s: float) -> None:
        self._answer_s = answer_s
        self._silent_from_s = silent_from_s
        self.free_at_s = 0.0

    @override
    async def renew(self) -> None:
        now_s = LoopClock().now_s()
        if now_s >= self._silent_from_s:
            await asyncio.Event().wait()
        self.free_at_s = now_s + self.lease_s
        await asyncio.sleep(self._answer_s)

    async def campaign(self, *, candidate: str, address: str) -> Leadership:
        await self.renew()
        return self

    async def load(self) -> Everything:
        return Everything({}, 0)

    async def leader(self) -> None: ...

    async def leaderless(self, *, patience_s: float) -> bool:
        return True

    async def close(self) -> None: ...


@pytest.mark.parametrize("answer_s", [0.0, 0.1, 0.5, 0.8])
@pytest.mark.parametrize("silent_from_s", [0.1, 3.0, 3.3])
def test_a_lease_is_counted_from_before_it_was_asked_for(
    answer_s: float, silent_from_s: float
) -> None:
    """Whatever the store takes to answer, it may count from the moment it was asked."""

    async def scenario() -> None:
        store = Slow(answer_s=answer_s, silent_from_s=silent_from_s)
        leading = Leading(store, candidate="one", address="one:1", clock=LoopClock(), options=EAGER)
        ended = asyncio.get_running_loop().create_future()

        async def rule(reign: Reign) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.set_result((LoopClock().now_s(), store.free_at_s))

        async with running(leading.run(rule)):
            ended_s, free_at_s = await ended
        assert silent_from_s < ended_s < free_at_s

    virtual_loop.run(scenario())
