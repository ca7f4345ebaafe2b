"""Live controls: they only restrict, they say why, they end, they survive a restart."""

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeVar

import pytest

from mainstay.model.errors import Rejected, Unavailable
from mainstay.model.ids import ClusterId
from mainstay.runtime.clock import StepClock
from mainstay.shard import controls as controls_module
from mainstay.shard.controls import (
    AGAIN_S,
    LASTS_MAX_S,
    TEXT_MAX,
    Control,
    ControlKind,
    Controls,
    restrict,
)
from mainstay.shard.events import Event
from mainstay.shard.restrictions import Limits, Restrictions, Stance
from noticing import NoticingJournal
from virtual_loop import run

AnswerT = TypeVar("AnswerT")

WEB: Final = ClusterId("web")
PAUSE, SHADOW, CAP, LIMIT = ControlKind


class KeptInMemory:
    """A disk that can be full, and that can take long."""

    def __init__(self) -> None:
        self.value: tuple[Control, ...] = ()
        self.is_full = False
        self.takes_s = 0.0

    def keep(self, value: tuple[Control, ...]) -> None:
        if self.is_full:
            raise Unavailable("controls.json cannot be written: No space left on device")
        self.value = value

    async def aside(self, work: Callable[[], AnswerT]) -> AnswerT:
        await asyncio.sleep(self.takes_s)
        return work()


class Desk:
    """Where controls are set."""

    def __init__(self, **fixed: Any) -> None:
        self.clock = StepClock(1000.0)
        self.journal = NoticingJournal()
        self.kept = KeptInMemory()
        self.fixed = Restrictions(**fixed)
        self.controls = self.restarted()

    def restarted(self) -> Controls:
        self.controls = Controls(
            self.clock, self.journal, self.kept, self.fixed, aside=self.kept.aside
        )
        return self.controls

    def set(self, kind: ControlKind, **given: Any) -> Control:
        return run(self.setting(kind, **given))

    def lift(self, kind: ControlKind, **given: Any) -> Control:
        return run(self.lifting(kind, **given))

    async def setting(self, kind: ControlKind, **given: Any) -> Control:
        parts = {"reason": "a drill", "by": "ann", "lasts_s": 60.0, **given}
        return await self.controls.set(kind, **parts)

    async def lifting(self, kind: ControlKind, **given: Any) -> Control:
        return await self.controls.lift(kind, **{"reason": "over", "by": "bob", **given})

    def kept_kinds(self) -> list[ControlKind]:
        return [control.kind for control in self.kept.value]


@pytest.fixture
def desk() -> Desk:
    return Desk()


class TestRestricting:
    def test_without_any_the_configuration_counts(self, desk: Desk) -> None:
        assert desk.controls.restrictions() == desk.fixed

    def test_each_kind_holds_back_its_part(self, desk: Desk) -> None:
        desk.set(SHADOW)
        desk.set(CAP, value=0.01)
        desk.set(LIMIT, value=5)

        found = desk.controls.restrictions()

        assert found.shard is Stance.SHADOW
        assert found.limits == Limits(reclaim_fraction_max=0.01, actions_per_cycle_max=5)

    def test_each_kind_can_be_for_one_cluster_alone(self, desk: Desk) -> None:
        desk.set(PAUSE, cluster=WEB)
        desk.set(CAP, cluster=WEB, value=0.01)
        desk.set(LIMIT, cluster=WEB, value=5)

        found = desk.controls.restrictions()

        assert (found.shard, found.limits) == (Stance.ACT, Limits())
        assert found.clusters == {WEB: Stance.PAUSE}
        assert found.cluster_limits == {
            WEB: Limits(reclaim_fraction_max=0.01, actions_per_cycle_max=5)
        }

    @pytest.mark.parametrize("first", [PAUSE, SHADOW])
    def test_pause_wins_over_shadow(self, desk: Desk, first: ControlKind) -> None:
        second = SHADOW if first is PAUSE else PAUSE
        desk.set(first)
        desk.set(second)
        desk.set(first, cluster=WEB)
        desk.set(second, cluster=WEB)

        assert desk.controls.restrictions().shard is Stance.PAUSE
        assert desk.controls.restrictions().clusters == {WEB: Stance.PAUSE}

    def test_the_configuration_always_wins(self) -> None:
        """A live shadow does not lift a static pause, and lifting it lifts nothing else."""
        desk = Desk(shard=Stance.PAUSE)
        desk.set(SHADOW)

        assert desk.controls.restrictions().shard is Stance.PAUSE
        desk.lift(SHADOW)
        assert desk.controls.restrictions().shard is Stance.PAUSE

    @pytest.mark.parametrize(("kind", "value"), [(CAP, 0.05), (CAP, 0.9), (LIMIT, 10), (LIMIT, 99)])
    def test_a_limit_that_restricts_no_further_is_refused(
        self, kind: ControlKind, value: float
    ) -> None:
        desk = Desk(limits=Limits(reclaim_fraction_max=0.05, actions_per_cycle_max=10))

        with pytest.raises(Rejected, match=f"can only restrict further: {kind} {value:g}, the"):
            desk.set(kind, value=value)

        assert desk.controls.restrictions() == desk.fixed

    @pytest.mark.parametrize(("kind", "value"), [(CAP, 0.9), (LIMIT, 99)])
    def test_where_the_configuration_has_no_limit_any_restricts(
        self, kind: ControlKind, value: float
    ) -> None:
        desk = Desk(limits=Limits(reclaim_fraction_max=0.0))

        desk.set(kind, value=value)

        assert desk.controls.restrictions().limits != desk.fixed.limits

    def test_one_kept_under_a_looser_configuration_loosens_nothing(self, desk: Desk) -> None:
        desk.set(CAP, value=0.04)
        desk.fixed = Restrictions(limits=Limits(reclaim_fraction_max=0.01))

        assert desk.restarted().restrictions().limits.reclaim_fraction_max == 0.01

    def test_what_else_holds_back_is_left_as_it_is(self) -> None:
        fixed = Restrictions(backed_off=frozenset({WEB}), unreachable=frozenset({"ec2"}))

        assert restrict(fixed, ()) == fixed

    def test_the_restrictions_are_the_same_object_while_nothing_changes(self, desk: Desk) -> None:
        desk.set(PAUSE)

        assert desk.controls.restrictions() is desk.controls.restrictions()

    def test_what_is_set_or_lifted_counts_at_once(self, desk: Desk) -> None:
        before = desk.controls.restrictions()
        desk.set(PAUSE)
        during = desk.controls.restrictions()
        desk.lift(PAUSE)

        assert [each.shard for each in (before, during)] == [Stance.ACT, Stance.PAUSE]
        assert desk.controls.restrictions() == before


class TestTime:
    def test_it_ends_at_its_time_and_not_before(self, desk: Desk) -> None:
        desk.set(PAUSE, lasts_s=60.0)

        desk.clock.advance(59.9)
        assert desk.controls.restrictions().shard is Stance.PAUSE
        desk.clock.advance(0.1)
        assert desk.controls.restrictions().shard is Stance.ACT
        assert desk.controls.in_force() == ()

    def test_its_end_is_told_once(self, desk: Desk) -> None:
        desk.set(PAUSE, cluster=WEB)
        desk.clock.advance(60)
        for _ in range(3):
            desk.controls.restrictions()

        told = desk.journal.of(Event.CONTROL_ENDED)
        assert [(each.reason, each.facts["cluster"]) for each in told] == [("pause", "web")]
        assert told[0].facts["how"] == "expired"

    @pytest.mark.parametrize("lasts_s", [0.0, -1.0, LASTS_MAX_S + 1, float("inf"), float("nan")])
    def test_one_without_an_end_is_refused(self, desk: Desk, lasts_s: float) -> None:
        with pytest.raises(Rejected, match="a control lasts"):
            desk.set(PAUSE, lasts_s=lasts_s)

        assert desk.controls.in_force() == ()

    def test_it_may_last_a_month(self, desk: Desk) -> None:
        assert desk.set(PAUSE, lasts_s=LASTS_MAX_S).expires_at_s == 1000.0 + LASTS_MAX_S


class TestSetting:
    @pytest.mark.parametrize("what", ["reason", "by"])
    @pytest.mark.parametrize("text", ["", "  ", "two\nlines", "x" * (TEXT_MAX + 1)])
    def test_one_without_a_reason_or_a_name_is_refused(
        self, desk: Desk, what: str, text: str
    ) -> None:
        with pytest.raises(Rejected, match="a control needs a"):
            desk.set(PAUSE, **{what: text})

    @pytest.mark.parametrize(
        ("kind", "value"),
        [(CAP, 0.0), (CAP, -0.1), (CAP, 1.1), (CAP, float("nan")), (LIMIT, 0.0), (LIMIT, 0.5),
         (LIMIT, 1.5), (LIMIT, -1.0), (LIMIT, float("inf")), (LIMIT, float("nan")), (PAUSE, 1.0),
         (SHADOW, 0.5)],
    )  # fmt: skip
    def test_a_value_that_is_none_of_its_kind_is_refused(
        self, desk: Desk, kind: ControlKind, value: float
    ) -> None:
        with pytest.raises(Rejected, match=str(value)):
            desk.set(kind, value=value)

    def test_a_cluster_that_can_be_none_is_refused(self, desk: Desk) -> None:
        with pytest.raises(Rejected, match="not a cluster id: 'a b'"):
            desk.set(PAUSE, cluster="a b")

    def test_it_is_told_with_who_and_why_and_until_when(self, desk: Desk) -> None:
        desk.set(CAP, cluster=WEB, value=0.01)

        told = desk.journal.of(Event.CONTROL_SET)[0]
        assert told.reason == "reclaim_cap"
        assert told.facts == {
            "cluster": "web", "value": 0.01, "why": "a drill", "by": "ann",
            "expires_at_s": 1060.0,
        }  # fmt: skip

    def test_a_newer_one_takes_the_place_of_the_one_before(self, desk: Desk) -> None:
        desk.set(PAUSE, reason="first")
        desk.set(PAUSE, reason="second", lasts_s=5.0)
        desk.set(PAUSE, cluster=WEB)

        assert [(each.cluster, each.reason) for each in desk.controls.in_force()] == [
            (None, "second"), (WEB, "a drill"),
        ]  # fmt: skip

    def test_there_is_room_for_so_many_and_replacing_one_needs_none(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(controls_module, "CONTROLS_MAX", 2)
        desk.set(PAUSE)
        desk.set(SHADOW)

        with pytest.raises(Rejected, match=r"too many controls already: 2 \(lift some\)"):
            desk.set(LIMIT, value=1)
        desk.set(PAUSE)


class TestLifting:
    def test_what_is_lifted_holds_nothing_back(self, desk: Desk) -> None:
        desk.set(PAUSE)
        desk.set(PAUSE, cluster=WEB)

        desk.lift(PAUSE)

        assert desk.controls.restrictions().shard is Stance.ACT
        assert desk.controls.restrictions().clusters == {WEB: Stance.PAUSE}
        told = desk.journal.of(Event.CONTROL_ENDED)[0]
        assert (told.reason, told.facts["how"]) == ("pause", "lifted")
        assert (told.facts["by"], told.facts["why"]) == ("bob", "over")

    @pytest.mark.parametrize("cluster", [None, WEB])
    def test_what_is_not_there_cannot_be_lifted(
        self, desk: Desk, cluster: ClusterId | None
    ) -> None:
        desk.set(SHADOW, cluster=cluster)

        with pytest.raises(Rejected, match=f"pause of {cluster or 'the shard'}"):
            desk.lift(PAUSE, cluster=cluster)

    def test_what_has_expired_cannot_be_lifted(self, desk: Desk) -> None:
        desk.set(PAUSE)
        desk.clock.advance(60)

        with pytest.raises(Rejected, match="no such control"):
            desk.lift(PAUSE)

    @pytest.mark.parametrize("what", ["reason", "by"])
    def test_lifting_needs_a_reason_and_a_name(self, desk: Desk, what: str) -> None:
        desk.set(PAUSE)

        with pytest.raises(Rejected, match="lifting a control needs"):
            desk.lift(PAUSE, **{what: " "})


class TestRestart:
    def test_they_survive_it(self, desk: Desk) -> None:
        desk.set(PAUSE)
        desk.set(LIMIT, cluster=WEB, value=3)
        before = desk.controls.in_force()

        desk.restarted()

        assert desk.controls.in_force() == before
        assert desk.controls.restrictions().shard is Stance.PAUSE

    def test_what_ran_out_meanwhile_is_over_and_told(self, desk: Desk) -> None:
        desk.set(PAUSE)
        desk.clock.advance(61)

        assert desk.restarted().in_force() == ()
        assert len(desk.journal.of(Event.CONTROL_ENDED)) == 1

    def test_what_was_lifted_does_not_come_back(self, desk: Desk) -> None:
        desk.set(PAUSE)
        desk.lift(PAUSE)

        assert desk.restarted().in_force() == ()

    def test_what_cannot_be_kept_is_refused_and_nothing_changes(self, desk: Desk) -> None:
        desk.set(PAUSE)
        desk.kept.is_full = True

        with pytest.raises(Unavailable, match="No space left"):
            desk.set(SHADOW)
        with pytest.raises(Unavailable, match="No space left"):
            desk.lift(PAUSE)

        assert [each.kind for each in desk.controls.in_force()] == [PAUSE]
        assert [each.event for each in desk.journal.events] == [Event.CONTROL_SET]

    def test_one_that_expires_needs_no_disk(self, desk: Desk) -> None:
        desk.set(PAUSE)
        desk.kept.is_full = True
        desk.clock.advance(60)

        assert desk.controls.restrictions().shard is Stance.ACT

    def test_one_that_has_expired_is_kept_no_longer_and_told_in_no_later_life(
        self, desk: Desk
    ) -> None:
        desk.set(PAUSE)
        desk.set(SHADOW, lasts_s=600.0)
        desk.clock.advance(60)

        run(a_while(desk, 0.1))

        assert desk.kept_kinds() == [SHADOW]
        assert [each.kind for each in desk.restarted().in_force()] == [SHADOW]
        assert len(desk.journal.of(Event.CONTROL_ENDED)) == 1

    def test_a_disk_that_does_not_take_an_end_is_asked_again(self, desk: Desk) -> None:
        async def scenario() -> None:
            desk.kept.is_full = True
            await a_while(desk, 2 * AGAIN_S + 0.1)
            assert desk.kept_kinds() == [PAUSE]
            assert len(desk.journal.of(Event.CONTROLS_NOT_SAVED)) == 3
            desk.kept.is_full = False
            await a_while(desk, 0.1)
            assert desk.kept_kinds() == []

        desk.set(PAUSE)
        desk.clock.advance(60)
        run(scenario())

    def test_what_was_refused_is_not_in_the_file_either(self, desk: Desk) -> None:
        """A write that failed may have reached it all the same."""

        def keep_and_fail(value: tuple[Control, ...]) -> None:
            desk.kept.value = value
            raise Unavailable("the folder cannot be synced")

        keep, desk.kept.keep = desk.kept.keep, keep_and_fail  # type: ignore[method-assign]
        with pytest.raises(Unavailable):
            desk.set(PAUSE)
        desk.kept.keep = keep  # type: ignore[method-assign]

        run(a_while(desk, 0.1))

        assert desk.restarted().in_force() == ()


async def a_while(desk: Desk, seconds: float) -> None:
    """The life of a shard that asks often."""
    running = asyncio.ensure_future(desk.controls.run())
    desk.controls.restrictions()
    await asyncio.sleep(seconds)
    running.cancel()


class TestSlowDisk:
    """Ten seconds for each change."""

    @pytest.fixture(autouse=True)
    def slow(self, desk: Desk) -> None:
        desk.set(LIMIT, value=5)
        desk.kept.takes_s = 10.0

    def test_what_is_set_restricts_at_once_and_is_in_force_when_it_is_kept(
        self, desk: Desk
    ) -> None:
        async def scenario() -> None:
            async with asyncio.TaskGroup() as tasks:
                setting = tasks.create_task(desk.setting(PAUSE))
                await asyncio.sleep(9.9)
                assert desk.controls.restrictions().shard is Stance.PAUSE
                assert [each.kind for each in desk.controls.in_force()] == [LIMIT]
                assert not setting.done()
            assert desk.controls.restrictions().shard is Stance.PAUSE
            assert desk.kept.value == desk.controls.in_force()

        run(scenario())

    def test_what_is_refused_restricts_no_longer(self, desk: Desk) -> None:
        async def scenario() -> None:
            before = desk.controls.restrictions()
            desk.kept.is_full = True
            with pytest.raises(Unavailable):
                await desk.setting(PAUSE)
            assert desk.controls.restrictions() == before

        run(scenario())

    def test_what_expires_before_it_is_kept_restricts_no_longer_than_its_time(
        self, desk: Desk
    ) -> None:
        async def scenario() -> None:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(desk.setting(PAUSE, lasts_s=5.0))
                await asyncio.sleep(1)
                desk.clock.advance(5)
                assert desk.controls.restrictions().shard is Stance.ACT
            await a_while(desk, 11)

        run(scenario())

        assert desk.kept_kinds() == [LIMIT]
        assert [each.reason for each in desk.journal.of(Event.CONTROL_ENDED)] == ["pause"]

    def test_what_is_lifted_restricts_until_that_is_kept(self, desk: Desk) -> None:
        async def scenario() -> None:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(desk.lifting(LIMIT))
                await asyncio.sleep(9.9)
                assert desk.controls.restrictions().limits.actions_per_cycle_max == 5
            assert desk.controls.restrictions() == desk.fixed

        run(scenario())

    def test_changes_at_the_same_time_are_made_in_their_order(self, desk: Desk) -> None:
        async def scenario() -> None:
            async with asyncio.TaskGroup() as tasks:
                for change in (
                    desk.setting(PAUSE),
                    desk.setting(SHADOW),
                    desk.lifting(PAUSE),
                    desk.lifting(LIMIT),
                ):
                    tasks.create_task(change)

        run(scenario())

        assert desk.kept_kinds() == [SHADOW]
        assert desk.kept.value == desk.controls.in_force()

    def test_a_change_that_nobody_waits_for_any_more_is_made_all_the_same(self, desk: Desk) -> None:
        async def scenario() -> None:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(5):
                    await desk.setting(PAUSE)
            await asyncio.sleep(6)

        run(scenario())

        assert desk.kept_kinds() == [LIMIT, PAUSE]
        assert desk.kept.value == desk.controls.in_force()

    def test_one_that_expires_while_another_is_kept_has_ended_once(self, desk: Desk) -> None:
        async def scenario() -> None:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(desk.setting(PAUSE, lasts_s=600.0))
                tasks.create_task(desk.lifting(LIMIT))
                await asyncio.sleep(15)  # the second is being kept
                desk.clock.advance(60)
                desk.controls.restrictions()
            await a_while(desk, 11)

        run(scenario())

        assert desk.kept_kinds() == [PAUSE]
        assert [each.facts["how"] for each in desk.journal.of(Event.CONTROL_ENDED)] == ["expired"]
