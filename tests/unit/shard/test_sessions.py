"""The sessions of a shard, without a network: what is said to whom, and what each frame does."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

import pytest
from typing_extensions import override

from builders import a_machine, a_need, a_need_profile, a_profile
from mainstay.engine.hints import Confidence, Hint
from mainstay.model.calls import BLOB_BYTES_MAX
from mainstay.model.errors import Rejected, Unavailable
from mainstay.model.frames import (
    Acknowledged,
    BootstrapAnswer,
    BootstrapAsked,
    CapacityHint,
    Drain,
    Hello,
    NodeState,
    ReclaimAck,
    ReclaimTold,
)
from mainstay.model.ids import ClusterId
from mainstay.model.need import Operator, Requirement
from mainstay.model.profile import HostRef
from mainstay.model.resources import Resources
from mainstay.model.rollup import RawNeed, accept
from mainstay.model.state import State
from mainstay.runtime.clock import StepClock
from mainstay.shard.demand import Applied
from mainstay.shard.events import Event
from mainstay.shard.sessions import NoSession, SessionOptions
from talking import BATCH, WEB, Line, Stage, a_rollup, settle
from virtual_loop import run

SAME_RACK = Requirement("rack", Operator.SAME)
SERVING = a_machine(State.CONFIGURED, id="m-1", cluster=WEB)


def on(stage: Callable[[], Stage], scenario: Callable[[Stage], Awaitable[None]]) -> None:
    async def whole() -> None:
        await scenario(stage())

    run(whole())


def of(stage: Stage, event: Event) -> list[dict[str, object]]:
    return [told.facts for told in stage.journal.of(event)]


async def asked_on(line: Line) -> BootstrapAsked:
    await settle()
    return line.heard(BootstrapAsked)[-1]


class HeldUp:
    """An Aside whose works end when they are let go, whoever waits for them."""

    def __init__(self) -> None:
        self._ends: list[asyncio.Event] = []

    async def __call__(self, work: Callable[[], object]) -> object:
        self._ends.append(asyncio.Event())
        done = work()
        await self._ends[-1].wait()
        return done

    def let_go(self, number: int) -> None:
        self._ends[number].set()


class TestHello:
    def test_a_cluster_is_acknowledged_with_the_epoch_of_the_shard(self) -> None:
        async def scenario(stage: Stage) -> None:
            async with stage.line() as line:
                assert line.said == [Acknowledged("hello", shard_epoch=7)]
                assert of(stage, Event.SESSION_OPENED) == [{"cluster": WEB, "protocol": "v1alpha1"}]
            assert of(stage, Event.SESSION_CLOSED) == [{"cluster": WEB}]
            assert len(stage.sessions) == 0

        on(lambda: Stage(options=SessionOptions(epoch=7)), scenario)

    def test_a_second_hello_of_the_same_cluster_is_acknowledged_again(self) -> None:
        async def scenario(stage: Stage) -> None:
            async with stage.line() as line:
                line.session.heard(Hello(WEB))
                await settle()
                assert len(line.heard(Acknowledged)) == 2

        on(Stage, scenario)

    def test_a_second_hello_of_another_cluster_is_refused(self) -> None:
        async def scenario(stage: Stage) -> None:
            async with stage.line() as line:
                with pytest.raises(Rejected, match="the session of cluster web"):
                    line.session.heard(Hello(BATCH))

        on(Stage, scenario)

    @pytest.mark.parametrize("cluster", ["", "two words", "x" * 254, "ü"])
    def test_a_text_that_is_no_cluster_id_opens_nothing(self, cluster: str) -> None:
        async def scenario(stage: Stage) -> None:
            with pytest.raises(Rejected, match="not a cluster id"):
                stage.sessions.opened(Hello(cluster))
            assert len(stage.sessions) == 0

        on(Stage, scenario)

    def test_who_is_refused_for_a_certificate_is_counted(self) -> None:
        async def scenario(stage: Stage) -> None:
            stage.sessions.refused("w" * 300, "no")
            assert of(stage, Event.SESSION_REFUSED) == [{"cluster": "w" * 80, "why": "no"}]

        on(Stage, scenario)

    def test_a_frame_that_means_nothing_is_counted_and_the_session_goes_on(self) -> None:
        async def scenario(stage: Stage) -> None:
            async with stage.line() as line:
                line.session.ignored("unknown")
                await settle()
                assert line.why is None
                assert [told.reason for told in stage.journal.of(Event.FRAME_IGNORED)] == [
                    "unknown"
                ]

        on(Stage, scenario)


class TestReplacement:
    def test_a_newer_session_of_a_cluster_ends_the_older_one(self) -> None:
        async def scenario(stage: Stage) -> None:
            async with stage.line() as older, stage.line() as newer:
                assert isinstance(older.why, Unavailable)
                assert "has connected again" in older.why.message
                assert newer.why is None
                assert len(stage.sessions) == 1
                assert of(stage, Event.SESSION_REPLACED) == [{"cluster": WEB}]

        on(Stage, scenario)

    def test_a_replaced_sessions_late_clean_up_leaves_its_successor_alone(self) -> None:
        async def scenario(stage: Stage) -> None:
            async with stage.line() as older, stage.line() as newer:
                older.session.close()
                older.session.close()
                stage.sessions.cut(older.session, "slow", "late")
                stage.sessions.tell(WEB, SERVING)
                await settle()

                assert newer.states() == [("m-1", "Configured")]
                assert newer.why is None
                assert of(stage, Event.SESSION_CLOSED) == []
                assert of(stage, Event.SESSION_CUT) == []
            assert of(stage, Event.SESSION_CLOSED) == [{"cluster": WEB}]

        on(Stage, scenario)

    @pytest.mark.parametrize("successor", ["says nothing", "has been believed", "is gone too"])
    def test_a_rollup_of_a_replaced_session_does_not_overrule_its_successor(
        self, successor: str
    ) -> None:
        """Its verdict is made, late, and its lane has not yet been told to end."""

        async def scenario() -> None:
            held_up = HeldUp()
            stage = Stage(aside=held_up)
            old = Line(stage.sessions.opened(Hello(WEB)))
            reading = stage.sessions.read_rollups(old.session)
            async with asyncio.TaskGroup() as tasks:
                task = tasks.create_task(reading)
                old.session.rolled_up(a_rollup(a_need(group="old")))
                await settle()
                async with stage.line() as line:
                    if successor == "has been believed":
                        line.session.rolled_up(a_rollup(a_need(group="new")))
                        await settle()
                        held_up.let_go(1)
                        await settle()
                    before, wakes = stage.book.of_cluster(WEB), stage.wakes
                    if successor == "is gone too":
                        line.session.close()
                    held_up.let_go(0)
                    await settle()
                    assert stage.book.of_cluster(WEB) == before
                    assert [need.group for need in before] == ["new"] * wakes
                    assert stage.wakes == wakes == len(stage.book.heard)
                    assert old.session.rollups == 0
                task.cancel()

        run(scenario())

    def test_a_rollup_that_is_judged_while_its_session_ends_is_not_taken_in(self) -> None:
        async def scenario() -> None:
            held_up = HeldUp()
            stage = Stage(aside=held_up)
            async with stage.line() as line:
                line.session.rolled_up(a_rollup(a_need()))
                await settle()
                line.session.close()
                held_up.let_go(0)
                await settle()
            assert stage.book.applied == []
            assert stage.book.heard == frozenset()
            assert stage.wakes == 0

        run(scenario())

    def test_sessions_of_different_clusters_do_not_touch_each_other(self) -> None:
        async def scenario(stage: Stage) -> None:
            async with stage.line("web") as web, stage.line("batch") as batch:
                stage.sessions.tell(BATCH, a_machine(State.CONFIGURED, id="m-2", cluster=BATCH))
                await settle()
                assert (web.states(), batch.states()) == ([], [("m-2", "Configured")])
                assert [facts.cluster for facts in stage.sessions.facts()] == [BATCH, WEB]

        on(Stage, scenario)

    def test_a_shard_that_stops_hangs_up_on_everybody(self) -> None:
        async def scenario(stage: Stage) -> None:
            async with stage.line("web") as web, stage.line("batch") as batch:
                stage.sessions.hang_up("the shard stops")
                await settle()
                assert {str(web.why), str(batch.why)} == {"the shard stops"}
                assert len(stage.sessions) == 0

        on(Stage, scenario)


class TestRollups:
    def test_an_accepted_rollup_becomes_demand_is_acknowledged_and_wakes_the_shard(self) -> None:
        async def scenario(stage: Stage) -> None:
            async with stage.line() as line:
                line.session.rolled_up(a_rollup(a_need(), nanos=5))
                await settle()

                assert stage.book.applied == [(WEB, (a_need(arrival_nanos=5),))]
                assert line.said[1:] == [Acknowledged("rollup")]
                assert stage.wakes == 1
                assert stage.sessions.facts()[0].rollups == 1

        on(Stage, scenario)

    @pytest.mark.parametrize("nanos", [1, 2])
    def test_one_that_says_the_same_again_is_acknowledged_and_wakes_nobody(
        self, nanos: int
    ) -> None:
        """Whether it is the same to the last bit or was written anew."""

        async def scenario(stage: Stage) -> None:
            async with stage.line() as line:
                line.session.rolled_up(a_rollup(a_need()))
                await settle()
                before = stage.book.snapshot()
                line.session.rolled_up(a_rollup(a_need(), nanos=nanos))
                await settle()

                assert line.said[1:] == [Acknowledged("rollup")] * 2
                assert stage.wakes == 1
                assert stage.book.snapshot() is before
                assert stage.sessions.facts()[0].rollups == 2

        on(Stage, scenario)

    def test_one_that_is_repeated_to_the_last_bit_is_not_read_again(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Nor in a new session; and what was believed may have been written anew since."""
        read: list[int] = []

        def noted(cluster: ClusterId, rows: Sequence[RawNeed], *, arrival_nanos: int) -> object:
            read.append(arrival_nanos)
            return accept(cluster, rows, arrival_nanos=arrival_nanos)

        async def scenario(stage: Stage) -> None:
            for _ in range(2):
                async with stage.line() as line:
                    for nanos in (1, 1, 2, 2):
                        line.session.rolled_up(a_rollup(a_need(), nanos=nanos))
                        await settle()
                    assert len(line.heard(Acknowledged)) == 5
            assert read == [1, 2, 1, 2]
            assert stage.book.of_cluster(WEB) == (a_need(arrival_nanos=1),)

        monkeypatch.setattr("mainstay.shard.sessions.accept", noted)
        on(Stage, scenario)

    def test_one_that_repeats_what_was_held_counts_and_one_that_was_believed_ends_the_wait(
        self,
    ) -> None:
        many = [a_need(group=f"g-{number}") for number in range(20)]

        async def scenario(stage: Stage) -> None:
            async with stage.line() as line:
                for needs in (many, [], [], many, [], [], []):
                    line.session.rolled_up(a_rollup(*needs))
                    await asyncio.sleep(10)
                assert [len(needs) for _, needs in stage.book.applied] == [20] * 6 + [0]
                assert len(line.heard(Acknowledged)) == 8
                assert stage.wakes == 2

        on(Stage, scenario)

    def test_one_is_judged_anew_when_its_cluster_stands_otherwise_meanwhile(self) -> None:
        async def scenario() -> None:
            held_up = HeldUp()
            stage = Stage(aside=held_up)
            async with stage.line() as line:
                line.session.rolled_up(a_rollup(a_need(), nanos=9))
                await settle()
                other = stage.book.standing(WEB).verdict([a_need(arrival_nanos=3)])
                assert stage.book.take(other) is Applied.ACCEPTED
                for number in range(2):
                    held_up.let_go(number)
                    await settle()

                assert stage.book.of_cluster(WEB) == (a_need(arrival_nanos=3),)
                assert line.said[1:] == [Acknowledged("rollup")]
                assert stage.wakes == 0
                assert stage.sessions.facts()[0].rollups == 1

        run(scenario())

    def test_a_refused_rollup_opens_no_gate_triggers_no_cycle_and_is_not_acknowledged(
        self,
    ) -> None:
        async def scenario() -> None:
            stage = Stage()
            async with stage.line() as line:
                line.session.rolled_up(a_rollup(nanos=-1))
                await settle()

                assert stage.book.heard == frozenset()
                assert stage.wakes == 0
                assert line.said == [Acknowledged("hello")]
                facts = of(stage, Event.ROLLUP_REFUSED)
                assert [told["cluster"] for told in facts] == [WEB]
                assert "timestamp is negative" in str(facts[0]["why"])

        run(scenario())

    def test_a_quarantined_rollup_leaves_the_gate_open_and_triggers_no_cycle(self) -> None:
        async def scenario() -> None:
            stage = Stage()
            book = stage.book
            many = [a_need(group=f"g-{number}") for number in range(20)]
            async with stage.line() as line:
                line.session.rolled_up(a_rollup(*many))
                await settle()
                assert (stage.wakes, set(book.heard)) == (1, {WEB})

                line.session.rolled_up(a_rollup())
                await settle()

                assert stage.wakes == 1
                assert book.heard == {WEB}
                assert book.held.keys() == {WEB}
                assert len(book.snapshot().needs) == 20
                assert len(line.heard(Acknowledged)) == 3

        run(scenario())

    def test_a_rollup_after_a_refused_one_is_taken_in(self) -> None:
        async def scenario(stage: Stage) -> None:
            async with stage.line() as line:
                line.session.rolled_up(a_rollup(a_need())[:-1])
                await settle()
                line.session.rolled_up(a_rollup(a_need()))
                await settle()
                assert len(of(stage, Event.ROLLUP_REFUSED)) == 1
                assert len(stage.book.applied) == 1

        on(Stage, scenario)

    @pytest.mark.parametrize(("named", "taken"), [("", 1), ("web", 1), ("batch", 0)])
    def test_a_rollup_that_names_another_cluster_is_refused(self, named: str, taken: int) -> None:
        async def scenario(stage: Stage) -> None:
            async with stage.line() as line:
                line.session.rolled_up(a_rollup(a_need(), cluster=named))
                await settle()
                assert len(stage.book.applied) == taken

        on(Stage, scenario)

    def test_of_rollups_that_wait_to_be_read_only_the_newest_is(self) -> None:
        async def scenario() -> None:
            turn = asyncio.Semaphore(0)

            async def slowly(work: Callable[[], object]) -> object:
                await turn.acquire()
                return work()

            stage = Stage(aside=slowly)
            async with stage.line() as line:
                for number in range(5):
                    line.session.rolled_up(a_rollup(a_need(group=f"g-{number}")))
                    await settle()
                turn.release()
                turn.release()
                await settle()
                groups = [needs[0].group for _, needs in stage.book.applied]
                assert groups == ["g-0", "g-4"]

        run(scenario())

    def test_only_so_many_are_read_at_a_time(self) -> None:
        async def scenario() -> None:
            busy = most = 0

            async def counted(work: Callable[[], object]) -> object:
                nonlocal busy, most
                busy += 1
                most = max(most, busy)
                await asyncio.sleep(1)
                busy -= 1
                return work()

            stage = Stage(aside=counted, options=SessionOptions(readers=2))
            lines = [Line(stage.sessions.opened(Hello(f"c-{n}"))) for n in range(6)]
            async with asyncio.TaskGroup() as tasks:
                talking = [tasks.create_task(line.talk()) for line in lines]
                for line in lines:
                    line.session.rolled_up(a_rollup(cluster=""))
                await asyncio.sleep(10)
                assert (most, len(stage.book.applied)) == (2, 6)
                for task in talking:
                    task.cancel()

        run(scenario())


async def in_vain(asking: Awaitable[bytes]) -> None:
    with pytest.raises(Unavailable):
        await asking


class Looked(dict[Any, Any]):
    """Counts how often all of it is looked at."""

    times = 0

    @override
    def values(self) -> Any:
        self.times += 1
        return super().values()


class TestBootstrap:
    def test_open_questions_are_looked_at_once_however_many_clusters_there_are(self) -> None:
        async def scenario(stage: Stage) -> None:
            looked = stage.sessions._asks = Looked()
            async with stage.line("web"), stage.line("batch"), asyncio.TaskGroup() as tasks:
                for cluster in (WEB, WEB, WEB, BATCH):
                    tasks.create_task(in_vain(stage.sessions.bootstrap(cluster, [], timeout_s=5)))
                await settle()
                looked.times = 0
                facts = stage.sessions.facts()
                assert [each.bootstraps_pending for each in facts] == [1, 3]
                assert looked.times == 1
                assert stage.sessions.connected() == {WEB, BATCH}

        on(Stage, scenario)

    def test_the_cluster_is_asked_and_its_answer_is_returned(self) -> None:
        async def scenario(stage: Stage) -> None:
            async with stage.line() as line, asyncio.TaskGroup() as tasks:
                waiting = tasks.create_task(
                    stage.sessions.bootstrap(WEB, [SAME_RACK], timeout_s=30)
                )
                asked = await asked_on(line)
                assert (asked.cluster, asked.requirements) == (WEB, (SAME_RACK,))
                assert len(asked.request) == 16
                assert stage.sessions.facts()[0].bootstraps_pending == 1

                line.session.heard(BootstrapAnswer(asked.request, b"join"))

                assert await waiting == b"join"
                assert stage.sessions.facts()[0].bootstraps_pending == 0

        on(Stage, scenario)

    def test_a_huge_rollup_never_delays_a_bootstrap_answer(self) -> None:
        """The roll-up is with whoever reads it, and the answer comes all the same."""

        async def scenario() -> None:
            async def never(work: Callable[[], object]) -> object:
                await asyncio.sleep(1_000_000)
                return work()

            stage = Stage(aside=never)
            async with stage.line() as line, asyncio.TaskGroup() as tasks:
                line.session.rolled_up(a_rollup(a_need()))
                line.session.rolled_up(a_rollup(a_need()))
                waiting = tasks.create_task(stage.sessions.bootstrap(WEB, [], timeout_s=1))
                line.session.heard(BootstrapAnswer((await asked_on(line)).request, b"join"))
                assert await waiting == b"join"
                assert stage.book.applied == []

        run(scenario())

    def test_without_a_session_nobody_is_asked(self) -> None:
        async def scenario(stage: Stage) -> None:
            with pytest.raises(NoSession) as caught:
                await stage.sessions.bootstrap(WEB, [], timeout_s=30)
            assert caught.value.code == "no_session"

        on(Stage, scenario)

    def test_no_answer_in_time_is_unavailable_and_the_late_one_is_dropped(self) -> None:
        async def scenario(stage: Stage) -> None:
            async with stage.line() as line:
                with pytest.raises(Unavailable, match="no bootstrap from web in 30 s") as caught:
                    await stage.sessions.bootstrap(WEB, [], timeout_s=30)
                assert not isinstance(caught.value, NoSession)

                line.session.heard(BootstrapAnswer((await asked_on(line)).request, b"join"))
                assert [told.reason for told in stage.journal.of(Event.FRAME_IGNORED)] == ["late"]

        on(Stage, scenario)

    def test_the_clusters_own_no_is_a_rejection_with_its_words(self) -> None:
        async def scenario(stage: Stage) -> None:
            async with stage.line() as line:
                assert await answered(stage, line, error="no template") == (
                    "cluster web: no template"
                )

        on(Stage, scenario)

    def test_a_blob_that_no_provider_takes_is_a_rejection(self) -> None:
        async def scenario(stage: Stage) -> None:
            async with stage.line() as line:
                why = await answered(stage, line, blob=bytes(BLOB_BYTES_MAX + 1))
                assert "too large: 3145729 bytes" in why

        on(Stage, scenario)

    def test_another_clusters_answer_is_no_answer(self) -> None:
        async def scenario(stage: Stage) -> None:
            async with stage.line("web") as web, stage.line("batch") as thief:
                async with asyncio.TaskGroup() as tasks:
                    waiting = tasks.create_task(stage.sessions.bootstrap(WEB, [], timeout_s=30))
                    asked = await asked_on(web)
                    thief.session.heard(BootstrapAnswer(asked.request, b"evil"))
                    web.session.heard(BootstrapAnswer(asked.request, b"good"))
                    web.session.heard(BootstrapAnswer(asked.request, b"twice"))
                    assert await waiting == b"good"
                assert len(stage.journal.of(Event.FRAME_IGNORED)) == 2

        on(Stage, scenario)

    def test_a_request_is_issued_again_when_its_cluster_reconnects_in_time(self) -> None:
        async def scenario(stage: Stage) -> None:
            async with asyncio.TaskGroup() as tasks:
                async with stage.line() as first:
                    waiting = tasks.create_task(stage.sessions.bootstrap(WEB, [], timeout_s=30))
                    asked = await asked_on(first)
                await asyncio.sleep(20)
                assert not waiting.done()
                async with stage.line() as second:
                    assert second.said == [Acknowledged("hello"), asked]
                    second.session.heard(BootstrapAnswer(asked.request, b"join"))
                    assert await waiting == b"join"

        on(Stage, scenario)

    def test_a_request_of_another_cluster_is_not_issued_to_who_connects(self) -> None:
        async def scenario(stage: Stage) -> None:
            async with stage.line("web") as web, asyncio.TaskGroup() as tasks:
                waiting = tasks.create_task(stage.sessions.bootstrap(WEB, [], timeout_s=30))
                await asked_on(web)
                async with stage.line("batch") as batch:
                    assert batch.heard(BootstrapAsked) == []
                waiting.cancel()

        on(Stage, scenario)

    def test_a_request_that_nobody_waits_for_any_more_is_not_sent(self) -> None:
        async def scenario(stage: Stage) -> None:
            async with stage.line() as line:
                line.stop_reading()
                stage.sessions.tell(WEB, SERVING)
                await settle()
                with pytest.raises(Unavailable):
                    await stage.sessions.bootstrap(WEB, [], timeout_s=5)
                line.reads.set()
                await settle()
                assert line.heard(BootstrapAsked) == []

        on(Stage, scenario)


async def answered(stage: Stage, line: Line, *, blob: bytes = b"", error: str = "") -> str:
    """What is raised when a cluster answers so."""

    async def ask() -> str:
        with pytest.raises(Rejected) as caught:
            await stage.sessions.bootstrap(WEB, [], timeout_s=30)
        return caught.value.message

    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(ask())
        asked = await asked_on(line)
        line.session.heard(BootstrapAnswer(asked.request, blob, error=error))
        return await waiting


class TestReclaim:
    def test_the_machines_cluster_is_told_by_the_id_of_the_machine(self) -> None:
        async def scenario(stage: Stage) -> None:
            async with stage.line() as line:
                assert stage.sessions.reclaim(
                    SERVING, grace_s=120, unheard_grace_s=30, preemptor_priority=9
                )
                await settle()
                told = line.heard(ReclaimTold)[0]
                assert (told.nodes, told.grace_s, told.preemptor_priority) == (("m-1",), 120, 9)
                assert len(told.instruction) == 16
                line.session.heard(ReclaimAck(told.instruction, 1))
                assert line.why is None

        on(Stage, scenario)

    def test_nobody_there_to_hear_is_told_at_once(self) -> None:
        async def scenario(stage: Stage) -> None:
            idle = a_machine(State.IDLE)
            assert not stage.sessions.reclaim(
                SERVING, grace_s=30, unheard_grace_s=30, preemptor_priority=None
            )
            assert not stage.sessions.reclaim(
                idle, grace_s=30, unheard_grace_s=30, preemptor_priority=None
            )

        on(Stage, scenario)


class TestNodeStates:
    def test_a_cluster_is_told_identity_and_allocatable(self) -> None:
        machine = a_machine(
            State.CONFIGURED,
            profile=a_profile(labels={"rack": "7"}),
            host=HostRef("metal", "h/1"),
            cluster=WEB,
            allocatable=Resources({"cpu": "7500m"}),
        )

        async def scenario(stage: Stage) -> None:
            async with stage.line() as line:
                stage.sessions.tell(WEB, machine)
                await settle()
                assert line.heard(NodeState) == [
                    NodeState(
                        machine=machine.id,
                        cluster=WEB,
                        state=State.CONFIGURED,
                        provider_id="metal://h/1",
                        labels={
                            "rack": "7",
                            "node.kubernetes.io/instance-type": "m5.2xlarge",
                            "topology.kubernetes.io/zone": "zone-a",
                        },
                        allocatable=Resources({"cpu": "7500m"}),
                        price_per_hour=machine.price_per_hour,
                    )
                ]

        on(Stage, scenario)

    def test_what_the_hardware_is_counts_where_no_allocatable_is_known(self) -> None:
        async def scenario(stage: Stage) -> None:
            async with stage.line() as line:
                stage.sessions.tell(WEB, SERVING)
                await settle()
                assert line.heard(NodeState)[0].allocatable == SERVING.profile.resources

        on(Stage, scenario)

    def test_a_failed_machine_is_told_with_its_diagnosis(self) -> None:
        async def scenario(stage: Stage) -> None:
            async with stage.line() as line:
                failed = a_machine(State.FAILED, cluster=WEB, last_error="disk")
                stage.sessions.tell(WEB, failed)
                await settle()
                assert line.heard(NodeState)[0].last_error == "disk"

        on(Stage, scenario)

    def test_the_last_update_of_a_drained_machine_reaches_the_cluster_it_left(self) -> None:
        async def scenario(stage: Stage) -> None:
            async with stage.line() as line:
                stage.sessions.tell(WEB, a_machine(State.IDLE, id="m-1"))
                await settle()
                assert line.states() == [("m-1", "Idle")]
                assert line.heard(NodeState)[0].cluster == WEB

        on(Stage, scenario)

    def test_a_machine_that_is_being_deleted_is_no_clusters_business(self) -> None:
        async def scenario(stage: Stage) -> None:
            async with stage.line() as line:
                stage.sessions.tell(WEB, a_machine(State.DELETING))
                await settle()
                assert line.states() == []

        on(Stage, scenario)

    def test_what_nobody_is_there_to_hear_is_lost(self) -> None:
        async def scenario(stage: Stage) -> None:
            stage.sessions.tell(WEB, SERVING)
            async with stage.line() as line:
                assert line.states() == []

        on(Stage, scenario)

    def test_who_connects_is_told_how_all_its_machines_stand(self) -> None:
        others = a_machine(State.CONFIGURED, id="m-3", cluster=BATCH)
        leaving = a_machine(State.DRAINING, id="m-2", cluster=WEB)

        async def scenario(stage: Stage) -> None:
            async with stage.line() as line:
                assert line.said[0] == Acknowledged("hello")
                assert line.states() == [("m-1", "Configured"), ("m-2", "Draining")]

        on(lambda: Stage(SERVING, leaving, others), scenario)

    @pytest.mark.parametrize("preemptor", [None, 0, 9])
    @pytest.mark.parametrize(("heard", "left_s"), [(True, 120.0), (False, 30.0)])
    def test_who_connects_during_a_drain_is_told_for_whom_it_is_and_what_is_left_of_the_grace(
        self, preemptor: int | None, heard: bool, left_s: float
    ) -> None:
        """The instruction was said once, and maybe to nobody who could still act on it."""
        leaving = a_machine(State.DRAINING, id="m-1", cluster=WEB)
        clock = StepClock(0.0)

        def tell(stage: Stage) -> None:
            stage.sessions.reclaim(
                SERVING, grace_s=120, unheard_grace_s=30, preemptor_priority=preemptor
            )
            stage.sessions.tell(WEB, leaving)

        async def scenario(stage: Stage) -> None:
            if heard:
                async with stage.line() as line:
                    tell(stage)
                    await settle()
                    assert line.heard(NodeState)[-1].drain == Drain(left_s, preemptor)
            else:
                tell(stage)
            clock.advance(10.0)
            async with stage.line() as line:
                assert line.heard(NodeState)[-1].drain == Drain(left_s - 10.0, preemptor)
            clock.advance(1_000.0)
            async with stage.line() as line:
                assert line.heard(NodeState)[-1].drain == Drain(0.0, preemptor)

        on(lambda: Stage(leaving, clock=clock), scenario)

    def test_of_a_drain_that_is_over_or_somebody_elses_nothing_is_told(self) -> None:
        leaving = a_machine(State.DRAINING, id="m-1", cluster=WEB)

        async def scenario(stage: Stage) -> None:
            stage.sessions.reclaim(SERVING, grace_s=9, unheard_grace_s=9, preemptor_priority=9)
            stage.sessions.tell(WEB, a_machine(State.IDLE, id="m-1"))
            async with stage.line() as line:
                assert [frame.drain for frame in line.heard(NodeState)] == [None]

        on(lambda: Stage(leaving), scenario)

    def test_all_of_it_can_be_told_again(self) -> None:
        async def scenario(stage: Stage) -> None:
            async with stage.line() as line:
                stage.machines.append(a_machine(State.CONFIGURED, id="m-2", cluster=WEB))
                stage.sessions.replay(WEB)
                stage.sessions.replay(BATCH)
                await settle()
                assert [machine for machine, _ in line.states()] == ["m-1", "m-1", "m-2"]

        on(lambda: Stage(SERVING), scenario)


class TestSlowReaders:
    def test_who_does_not_read_a_frame_in_time_is_cut_off(self) -> None:
        async def scenario(stage: Stage) -> None:
            async with stage.line() as line:
                line.stop_reading()
                stage.sessions.tell(WEB, SERVING)
                await asyncio.sleep(29)
                assert line.why is None
                await asyncio.sleep(2)

                assert str(line.why) == "cut off: nothing was read for 30 s"
                assert [told.reason for told in stage.journal.of(Event.SESSION_CUT)] == ["slow"]
                assert of(stage, Event.SESSION_CLOSED) == [{"cluster": WEB}]
                assert WEB not in stage.sessions

        on(Stage, scenario)

    def test_who_reads_slowly_but_reads_is_not_cut_off(self) -> None:
        async def scenario(stage: Stage) -> None:
            async with stage.line() as line:
                for number in range(5):
                    line.stop_reading()
                    stage.sessions.tell(WEB, a_machine(State.CONFIGURED, id=f"m-{number}"))
                    await asyncio.sleep(29)
                    line.reads.set()
                    await settle()
                assert line.why is None

        on(Stage, scenario)

    def test_buffers_are_bounded_and_who_lets_them_fill_up_is_cut_off(self) -> None:
        async def scenario(stage: Stage) -> None:
            async with stage.line() as line:
                line.stop_reading()
                for number in range(5):
                    await settle()
                    stage.sessions.tell(WEB, a_machine(State.CONFIGURED, id=f"m-{number}"))
                await settle()

                assert str(line.why) == "cut off: 3 frames wait to be read"
                assert [told.reason for told in stage.journal.of(Event.SESSION_CUT)] == ["overflow"]
                assert not stage.sessions.reclaim(
                    SERVING, grace_s=1, unheard_grace_s=30, preemptor_priority=None
                )

        on(lambda: Stage(options=SessionOptions(frames_max=3)), scenario)

    def test_who_is_cut_off_by_an_instruction_has_not_heard_it(self) -> None:
        async def scenario(stage: Stage) -> None:
            async with stage.line() as line:
                line.stop_reading()
                for number in range(4):
                    await settle()
                    stage.sessions.tell(WEB, a_machine(State.CONFIGURED, id=f"m-{number}"))
                assert line.why is None
                assert not stage.sessions.reclaim(
                    SERVING, grace_s=1, unheard_grace_s=30, preemptor_priority=None
                )
                await settle()
                assert str(line.why) == "cut off: 3 frames wait to be read"

        on(lambda: Stage(options=SessionOptions(frames_max=3)), scenario)

    def test_a_machine_that_changes_often_fills_up_nothing(self) -> None:
        async def scenario(stage: Stage) -> None:
            async with stage.line() as line:
                line.stop_reading()
                for state in (State.CONFIGURED, State.DRAINING, State.IDLE) * 10:
                    stage.sessions.tell(WEB, a_machine(state, id="m-1"))
                    await settle()
                line.reads.set()
                await settle()
                assert line.states() == [("m-1", "Configured"), ("m-1", "Idle")]

        on(lambda: Stage(options=SessionOptions(frames_max=3)), scenario)

    def test_one_that_is_slow_delays_no_other(self) -> None:
        async def scenario(stage: Stage) -> None:
            async with stage.line("web") as slow, stage.line("batch") as quick:
                slow.stop_reading()
                stage.sessions.tell(WEB, SERVING)
                stage.sessions.tell(BATCH, SERVING)
                await settle()
                assert (len(slow.states()), len(quick.states())) == (0, 1)

        on(Stage, scenario)


def a_hint(cluster: ClusterId, count: int = 3) -> Hint:
    return Hint(cluster, a_need_profile(), count, Confidence.HIGH, 0.5)


class TestHints:
    def test_a_reconnect_gets_fresh_hints_while_others_see_no_repeat(self) -> None:
        async def scenario(stage: Stage) -> None:
            hints = [a_hint(WEB), a_hint(BATCH)]
            async with stage.line("batch") as batch:
                async with stage.line("web"):
                    stage.sessions.publish(hints)
                async with stage.line("web") as web:
                    stage.sessions.publish(hints)
                    await settle()
                    assert len(web.heard(CapacityHint)) == 1
                async with stage.line("web"):
                    stage.sessions.publish(hints)
                    async with stage.line("web") as successor:
                        stage.sessions.publish(hints)
                        await settle()
                        assert len(successor.heard(CapacityHint)) == 1
                assert len(batch.heard(CapacityHint)) == 1

        on(Stage, scenario)

    def test_hints_are_said_at_most_every_interval(self) -> None:
        async def scenario(stage: Stage) -> None:
            async with stage.line() as line:
                for count in range(21):
                    stage.sessions.publish([a_hint(WEB, count)])
                    await asyncio.sleep(1)
                assert [hint.count for hint in line.heard(CapacityHint)] == [0, 5, 10, 15, 20]

        on(Stage, scenario)

    def test_a_hint_that_waits_is_superseded(self) -> None:
        async def scenario(stage: Stage) -> None:
            async with stage.line() as line:
                line.stop_reading()
                stage.sessions.tell(WEB, SERVING)
                for count in range(3):
                    await asyncio.sleep(6)
                    stage.sessions.publish([a_hint(WEB, count)])
                line.reads.set()
                await settle()
                assert [hint.count for hint in line.heard(CapacityHint)] == [2]

        on(Stage, scenario)


def test_a_stream_that_breaks_ends_its_session() -> None:
    async def scenario(stage: Stage) -> None:
        async def broken(_: object) -> None:
            raise Unavailable("the stream is gone")

        session = stage.sessions.opened(Hello(WEB))
        with pytest.raises(Unavailable, match="the stream is gone"):
            await session.run(broken)
        session.close()
        assert len(stage.sessions) == 0

    on(Stage, scenario)


def test_names_of_requests_are_the_same_for_the_same_seed() -> None:
    def names() -> list[str]:
        async def scenario() -> list[str]:
            stage = Stage()
            async with stage.line() as line:
                for _ in range(3):
                    stage.sessions.reclaim(
                        SERVING, grace_s=1, unheard_grace_s=30, preemptor_priority=None
                    )
                await settle()
                return [told.instruction for told in line.heard(ReclaimTold)]

        coroutine: Coroutine[object, object, list[str]] = scenario()
        return run(coroutine)

    assert names() == names()
    assert len(set(names())) == 3
