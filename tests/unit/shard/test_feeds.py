"""A feed: one list at a time, in its own time, and what becomes of it."""

import asyncio
import dataclasses
from typing import Self

import pytest
from typing_extensions import override

from builders import a_machine
from mainstay.model.batch import MachineBatch
from mainstay.model.calls import Capabilities, ListRequest
from mainstay.model.errors import Rejected, Unavailable
from mainstay.shard.events import Event
from mainstay.shard.facts import Health
from mainstay.shard.lists.feeds import Feed, FeedOptions
from mainstay.shard.lists.lookups import LookupOptions
from reconciling import DELTAS, DELTAS_ONLY, FULL_ONLY, Diary, FakeLink
from virtual_loop import LoopClock, run

PLENTY_S = 1000.0


class Fed:
    """A feed that runs."""

    def __init__(self, link: FakeLink, options: FeedOptions | None = None) -> None:
        self.link = link
        self.diary = Diary()
        self.feed = Feed("metal", link, LoopClock(), options, journal=self.diary)

    async def __aenter__(self) -> Self:
        self._tasks = asyncio.TaskGroup()
        await self._tasks.__aenter__()
        self._task = self._tasks.create_task(self.feed.run())
        return self

    async def __aexit__(self, *raised: object) -> None:
        self._task.cancel()
        await self._tasks.__aexit__(None, None, None)

    def health(self) -> Health:
        return self.feed.health

    async def next(self, *, full: bool = False) -> MachineBatch:
        """A tick: ask, wait, take."""
        self.feed.tick()
        self.feed.ask(full=full)
        for _ in range(1000):
            await asyncio.sleep(1)
            if (fetched := self.feed.take()) is not None:
                assert isinstance(fetched.listed, MachineBatch)
                assert fetched.full is fetched.listed.full
                return fetched.listed
        raise AssertionError("no list came")

    async def kinds(self, count: int) -> str:
        """`f` for each full list, `d` for each incremental one."""
        return "".join(["f" if (await self.next()).full else "d" for _ in range(count)])


class TestAsking:
    def test_nothing_is_fetched_unasked(self) -> None:
        async def scenario() -> None:
            async with Fed(FakeLink(a_machine())) as fed:
                await asyncio.sleep(PLENTY_S)
                assert fed.link.asked == []
                assert fed.health() is Health.UNKNOWN
                assert fed.feed.oldest_s() is None

        run(scenario())

    def test_asking_does_not_wait_and_the_list_says_when_it_was_asked_for(self) -> None:
        async def scenario() -> None:
            async with Fed(FakeLink(a_machine(), delay_s=7.0)) as fed:
                await asyncio.sleep(3)
                fed.feed.ask()
                assert fed.feed.take() is None
                await asyncio.sleep(6.9)
                assert fed.feed.oldest_s() == 3.0
                assert fed.feed.take() is None
                await asyncio.sleep(50)
                assert fed.feed.oldest_s() == 3.0
                fetched = fed.feed.take()
                assert fetched is not None
                assert fetched.asked_at_s == 3.0
                assert fed.feed.oldest_s() is None
                assert fed.feed.take() is None

        run(scenario())

    def test_a_list_is_not_fetched_before_the_last_one_was_taken(self) -> None:
        """Or what was fetched in between would be lost."""

        async def scenario() -> None:
            async with Fed(FakeLink(a_machine(), delay_s=1.0)) as fed:
                for _ in range(5):
                    fed.feed.ask()
                    await asyncio.sleep(10)
                assert len(fed.link.asked) == 1
                assert fed.feed.take() is not None
                await asyncio.sleep(10)
                assert len(fed.link.asked) == 2

        run(scenario())

    def test_one_list_is_fetched_at_a_time(self) -> None:
        async def scenario() -> None:
            async with Fed(FakeLink(a_machine(), delay_s=20.0)) as fed:
                for _ in range(15):
                    fed.feed.ask()
                    await asyncio.sleep(1)
                assert len(fed.link.asked) == 1

        run(scenario())

    def test_a_full_list_that_is_under_way_is_not_asked_for_twice(self) -> None:
        async def scenario() -> None:
            async with Fed(FakeLink(a_machine(), delay_s=20.0)) as fed:
                for _ in range(15):
                    fed.feed.ask(full=True)
                    await asyncio.sleep(1)
                await asyncio.sleep(10)
                assert fed.feed.take() is not None
                await asyncio.sleep(30)
                fetched = fed.feed.take()
                assert fetched is not None
                assert not fetched.full

        run(scenario())

    def test_full_lists_that_nobody_needs_at_once_have_a_pause(self) -> None:
        async def scenario() -> None:
            async with Fed(FakeLink(a_machine(), capabilities=FULL_ONLY)) as fed:
                times = []
                for _ in range(40):
                    fed.feed.ask()
                    await asyncio.sleep(0.25)
                    if (fetched := fed.feed.take()) is not None:
                        times.append(fetched.asked_at_s)
                assert times == [0.0, 5.0]

        run(scenario())

    def test_a_full_list_that_is_asked_for_has_no_pause(self) -> None:
        async def scenario() -> None:
            async with Fed(FakeLink(a_machine(), capabilities=FULL_ONLY)) as fed:
                await fed.next()
                fed.feed.ask()  # in the pause now
                await asyncio.sleep(1)
                assert len(fed.link.asked) == 1
                fed.feed.ask(full=True)
                await asyncio.sleep(0.1)
                assert len(fed.link.asked) == 2

        run(scenario())


class TestKindOfList:
    def test_after_the_first_list_only_what_changed_is_asked_for(self) -> None:
        async def scenario() -> None:
            async with Fed(FakeLink(a_machine(), a_machine(id="m-2"))) as fed:
                assert (await fed.next()).full
                fed.link.put(a_machine(id="m-3"))
                delta = await fed.next()
                assert not delta.full
                assert list(delta.ids) == ["m-3"]
                assert len((await fed.next()).ids) == 0

        run(scenario())

    def test_a_provider_that_declares_no_increments_is_listed_in_full(self) -> None:
        async def scenario() -> None:
            async with Fed(FakeLink(a_machine(), capabilities=FULL_ONLY)) as fed:
                assert await fed.kinds(5) == "fffff"
                assert {request.since for request in fed.link.asked} == {b""}
                assert not fed.feed.facts().incremental

        run(scenario())

    @pytest.mark.parametrize(
        ("capabilities", "kinds"),
        [(DELTAS_ONLY, "fdddfdddfd"), (DELTAS, "fddddddddd"), (None, "ffffffffff")],
    )
    def test_one_without_tombstones_is_listed_in_full_every_so_many_ticks(
        self, capabilities: Capabilities | None, kinds: str
    ) -> None:
        async def scenario() -> None:
            link = FakeLink(a_machine(), capabilities=capabilities)
            async with Fed(link, FeedOptions(full_every=4)) as fed:
                assert await fed.kinds(10) == kinds

        run(scenario())

    @pytest.mark.parametrize("capabilities", [DELTAS_ONLY, DELTAS])
    def test_lists_between_two_ticks_bring_no_full_list_nearer(
        self, capabilities: Capabilities
    ) -> None:
        async def scenario() -> None:
            link = FakeLink(a_machine(), capabilities=capabilities)
            async with Fed(link, FeedOptions(full_every=4, full_every_declared=4)) as fed:
                assert await fed.kinds(4) == "fddd"
                for _ in range(20):
                    fed.feed.ask()
                    await asyncio.sleep(1)
                    fetched = fed.feed.take()
                    assert fetched is not None
                    assert not fetched.full
                assert await fed.kinds(5) == "fdddf"

        run(scenario())

    def test_even_one_with_tombstones_is_listed_in_full_now_and_then(self) -> None:
        """A bad line loses records, and an incremental list never names them again."""

        async def scenario() -> None:
            async with Fed(FakeLink(a_machine()), FeedOptions(full_every_declared=3)) as fed:
                assert await fed.kinds(7) == "fddfddf"

        run(scenario())

    def test_one_that_declares_nothing_is_asked_for_changes_only_if_told_so(self) -> None:
        async def scenario() -> None:
            options = FeedOptions(incremental_from_peers=True, full_every=4)
            async with Fed(FakeLink(a_machine(), capabilities=None), options) as fed:
                assert await fed.kinds(9) == "fdddfdddf"

        run(scenario())

    def test_a_provider_that_has_lost_the_cursor_answers_in_full_and_is_taken_at_its_word(
        self,
    ) -> None:
        async def scenario() -> None:
            async with Fed(FakeLink(a_machine(), a_machine(id="m-2"))) as fed:
                await fed.next()
                fed.link.restart()
                answer = await fed.next()
                assert fed.link.asked[-1].since
                assert answer.full
                assert len(answer) == 2
                assert not (await fed.next()).full

        run(scenario())

    def test_a_provider_without_a_cursor_is_listed_in_full(self) -> None:
        class NoCursor(FakeLink):
            @override
            async def listing(self, request: ListRequest) -> MachineBatch:
                return dataclasses.replace(await super().listing(request), cursor=b"")

        async def scenario() -> None:
            async with Fed(NoCursor(a_machine())) as fed:
                assert await fed.kinds(3) == "fff"

        run(scenario())

    def test_a_list_that_could_not_be_taken_in_is_asked_for_in_full(self) -> None:
        async def scenario() -> None:
            async with Fed(FakeLink(a_machine())) as fed:
                await fed.kinds(2)
                fed.feed.refuse("too many sources")
                assert fed.health() is Health.LOST
                assert (await fed.next()).full

        run(scenario())


class TestFailing:
    def test_a_provider_that_fails_is_lost_and_one_that_answers_is_back(self) -> None:
        async def scenario() -> None:
            async with Fed(FakeLink(a_machine())) as fed:
                await fed.next()
                assert fed.health() is Health.ANSWERING
                fed.link.fails = Unavailable("no route")
                fed.feed.ask()
                await asyncio.sleep(0.1)
                facts = fed.feed.facts(5)
                assert (facts.health, facts.why, facts.machines) == (Health.LOST, "no route", 5)
                assert facts.failures_in_a_row == 1
                fed.link.fails = None
                await asyncio.sleep(2)
                assert fed.health() is Health.ANSWERING
                assert fed.feed.facts().failures_in_a_row == 0
                assert fed.diary.count(Event.PROVIDER_LOST, "metal") == 1
                assert fed.diary.count(Event.PROVIDER_BACK, "metal") == 1
                assert fed.diary.count(Event.LIST_FAILED, "metal") == 1

        run(scenario())

    def test_a_defect_in_reading_a_list_loses_that_provider_alone(self) -> None:
        async def scenario() -> None:
            async with Fed(FakeLink(a_machine())) as fed:
                await fed.next()
                fed.link.fails = RuntimeError("on purpose")
                fed.feed.ask()
                await asyncio.sleep(0.1)
                assert fed.health() is Health.LOST
                assert "on purpose" in fed.feed.facts().why
                fed.link.fails = None
                await asyncio.sleep(2)
                assert fed.health() is Health.ANSWERING

        run(scenario())

    @pytest.mark.parametrize(("full", "patience_s"), [(True, 120.0), (False, 30.0)])
    def test_a_list_that_takes_too_long_has_failed(self, full: bool, patience_s: float) -> None:
        async def scenario() -> None:
            async with Fed(FakeLink(a_machine())) as fed:
                await fed.next()
                fed.link.delay_s = PLENTY_S
                fed.feed.ask(full=full)
                await asyncio.sleep(patience_s - 0.1)
                assert fed.health() is Health.ANSWERING
                await asyncio.sleep(0.2)
                assert fed.health() is Health.LOST
                assert f"{patience_s:g} s" in fed.feed.facts().why

        run(scenario())

    def test_a_lost_provider_is_asked_again_ever_more_rarely_unasked(self) -> None:
        async def scenario() -> None:
            link = FakeLink(a_machine())
            link.fails = Unavailable("no route")
            async with Fed(link) as fed:
                fed.feed.ask()
                for asked, at_s in enumerate((0, 1, 3, 7, 15, 31, 63, 123, 183), start=1):
                    await asyncio.sleep(at_s + 0.5 - asyncio.get_running_loop().time())
                    assert len(link.asked) == asked, at_s
                fed.feed.ask(full=True)
                await asyncio.sleep(1)
                assert len(link.asked) == 9
                assert fed.diary.count(Event.PROVIDER_LOST) == 1
                assert fed.diary.count(Event.LIST_FAILED) == 9

        run(scenario())

    def test_a_full_list_that_failed_stays_asked_for(self) -> None:
        async def scenario() -> None:
            async with Fed(FakeLink(a_machine())) as fed:
                await fed.next()
                fed.link.fails = Unavailable("no route")
                fed.feed.ask(full=True)
                await asyncio.sleep(0.1)
                fed.link.fails = None
                assert (await fed.next()).full
                assert not (await fed.next()).full

        run(scenario())

    def test_after_a_failure_it_goes_on_where_it_was(self) -> None:
        async def scenario() -> None:
            async with Fed(FakeLink(a_machine())) as fed:
                await fed.next()
                fed.link.put(a_machine(id="m-2"))
                fed.link.fails = Unavailable("no route")
                fed.feed.ask()
                await asyncio.sleep(0.1)
                fed.link.fails = None
                assert list((await fed.next()).ids) == ["m-2"]

        run(scenario())

    def test_a_list_in_the_name_of_another_provider_is_none(self) -> None:
        async def scenario() -> None:
            async with Fed(FakeLink(a_machine(), source="cloud")) as fed:
                fed.feed.ask()
                await asyncio.sleep(0.5)
                assert fed.feed.take() is None
                assert "cloud" in fed.feed.facts().why

        run(scenario())

    @pytest.mark.parametrize(
        "settings",
        [
            {"list_timeout_s": 0.0},
            {"delta_timeout_s": -1.0},
            {"full_every": 0},
            {"full_every_declared": 0},
            {"retry_min_s": 0.0},
            {"retry_min_s": 61.0},
        ],
    )
    def test_options_that_make_no_sense_are_refused(self, settings: dict[str, float]) -> None:
        with pytest.raises(Rejected):
            FeedOptions(**settings)  # type: ignore[arg-type]


class TestOldLists:
    def test_a_full_list_older_than_the_last_one_is_set_aside_and_asked_for_again(self) -> None:
        async def scenario() -> None:
            async with Fed(Replaying(a_machine(), capabilities=FULL_ONLY)) as fed:
                assert isinstance(fed.link, Replaying)
                old = fed.link._answer(b"")
                await fed.next()
                fed.link.put(a_machine(id="m-2"))
                await fed.next()
                fed.link.replays = [old]
                assert sorted((await fed.next()).ids) == ["m-1", "m-2"]
                assert fed.link.replays == []
                assert fed.diary.count(Event.LIST_FAILED, "metal") == 1
                assert fed.health() is Health.ANSWERING

        run(scenario())

    def test_one_that_comes_by_old_cursors_twice_has_begun_anew(self) -> None:
        async def scenario() -> None:
            async with Fed(Replaying(a_machine(), capabilities=FULL_ONLY)) as fed:
                assert isinstance(fed.link, Replaying)
                old = fed.link._answer(b"")
                await fed.next()
                fed.link.put(a_machine(id="m-2"))
                await fed.next()
                fed.link.replays = [old] * 4
                assert list((await fed.next()).ids) == ["m-1"]
                assert list((await fed.next()).ids) == ["m-1"]

        run(scenario())


class Replaying(FakeLink):
    """Answers some lists with old ones."""

    replays: list[MachineBatch] = []  # noqa: RUF012 - set by each test

    @override
    async def listing(self, request: ListRequest) -> MachineBatch:
        answer = await super().listing(request)
        return self.replays.pop() if self.replays else answer


class TestWaiting:
    def test_an_incremental_list_is_worth_waiting_for_and_a_full_one_is_not(self) -> None:
        async def scenario() -> None:
            async with Fed(FakeLink(a_machine(), delay_s=3.0)) as fed:
                loop = asyncio.get_running_loop()
                fed.feed.ask()
                await fed.feed.settled()
                assert loop.time() == 0.0
                await fed.feed.first()
                assert loop.time() == 3.0
                fed.feed.take()
                fed.feed.ask()
                await fed.feed.settled()
                assert loop.time() == 6.0
                fed.feed.take()
                fed.feed.ask(full=True)
                await fed.feed.settled()
                assert loop.time() == 6.0
                await asyncio.sleep(1)  # under way by now
                await fed.feed.settled()
                assert loop.time() == 7.0

        run(scenario())

    def test_nobody_waits_for_a_provider_that_is_lost(self) -> None:
        async def scenario() -> None:
            async with Fed(FakeLink(a_machine())) as fed:
                await fed.next()
                fed.link.fails = Unavailable("no route")
                fed.feed.ask()
                at_s = asyncio.get_running_loop().time()
                await fed.feed.settled()
                assert fed.health() is Health.LOST
                await fed.feed.settled()
                assert asyncio.get_running_loop().time() == at_s

        run(scenario())

    def test_a_failure_is_a_first_answer_too(self) -> None:
        async def scenario() -> None:
            link = FakeLink()
            link.fails = Unavailable("no route")
            async with Fed(link) as fed:
                fed.feed.ask()
                assert not fed.feed.answered
                await fed.feed.first()
                assert fed.feed.answered

        run(scenario())


class TestLookups:
    def test_machines_are_asked_for_a_few_at_a_time(self) -> None:
        async def scenario() -> None:
            machines = [a_machine(id=f"m-{number}") for number in range(20)]
            options = FeedOptions(lookups=LookupOptions(at_once=8))
            async with Fed(FakeLink(*machines), options) as fed:
                fed.link.get_delay_s = 1.0
                fed.feed.ask_for([machine.id for machine in machines])
                await asyncio.sleep(0.5)
                assert len(fed.link.looked_up) == 8
                fed.feed.ask_for([machine.id for machine in machines])
                await asyncio.sleep(5)
                assert sorted(fed.link.looked_up) == sorted(m.id for m in machines)
                found = {each.machine: each.record for each in fed.feed.take_found()}
                assert found == {machine.id: machine for machine in machines}
                assert fed.feed.take_found() == []

        run(scenario())

    def test_an_answer_says_when_it_was_asked_for(self) -> None:
        async def scenario() -> None:
            async with Fed(FakeLink(a_machine())) as fed:
                fed.link.get_delay_s = 4.0
                await asyncio.sleep(2)
                fed.feed.ask_for([a_machine().id])
                await asyncio.sleep(1)
                assert fed.feed.oldest_s() == 2.0
                await asyncio.sleep(4)
                assert fed.feed.oldest_s() == 2.0
                [found] = fed.feed.take_found()
                assert found.asked_at_s == 2.0
                assert fed.feed.oldest_s() is None

        run(scenario())

    def test_a_machine_that_is_not_there_is_an_answer(self) -> None:
        async def scenario() -> None:
            async with Fed(FakeLink()) as fed:
                fed.feed.ask_for([a_machine().id])
                await asyncio.sleep(1)
                [found] = fed.feed.take_found()
                assert found.record is None
                assert found.refused is None

        run(scenario())

    @pytest.mark.parametrize("hangs", [True, False])
    def test_one_that_gets_no_answer_ends_the_round_and_can_be_asked_for_again(
        self, hangs: bool
    ) -> None:
        async def scenario() -> None:
            machines = [a_machine(id=f"m-{number}") for number in range(20)]
            async with Fed(FakeLink(*machines)) as fed:
                fed.link.get_delay_s = PLENTY_S if hangs else 0.0
                fed.link.get_fails = None if hangs else Unavailable("no route")
                fed.feed.ask_for([machine.id for machine in machines])
                await asyncio.sleep(20)
                assert len(fed.link.looked_up) <= 8
                assert fed.feed.take_found() == []
                assert fed.feed.oldest_s() is None
                fed.link.get_fails, fed.link.get_delay_s = None, 0.0
                fed.feed.ask_for([machine.id for machine in machines])
                await asyncio.sleep(1)
                assert len(fed.feed.take_found()) == 20

        run(scenario())

    def test_an_answer_that_cannot_be_read_is_told_as_such(self) -> None:
        async def scenario() -> None:
            async with Fed(FakeLink()) as fed:
                fed.link.get_fails = Rejected("not a machine")
                fed.feed.ask_for([a_machine().id])
                await asyncio.sleep(1)
                [found] = fed.feed.take_found()
                assert found.refused is fed.link.get_fails

        run(scenario())

    def test_a_defect_in_reading_an_answer_ends_no_other(self) -> None:
        async def scenario() -> None:
            async with Fed(FakeLink(a_machine())) as fed:
                fed.link.get_fails = RuntimeError("on purpose")
                fed.feed.ask_for([a_machine().id])
                await asyncio.sleep(1)
                [found] = fed.feed.take_found()
                assert found.refused is not None
                assert "on purpose" in found.refused.message
                fed.link.get_fails = None
                fed.feed.ask_for([a_machine().id])
                await asyncio.sleep(1)
                assert [each.refused for each in fed.feed.take_found()] == [None]

        run(scenario())

    @pytest.mark.parametrize("settings", [{"at_once": 0}, {"timeout_s": 0}])
    def test_options_that_make_no_sense_are_refused(self, settings: dict[str, int]) -> None:
        with pytest.raises(Rejected):
            LookupOptions(**settings)
