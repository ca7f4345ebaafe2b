"""A run is polite: what it takes, how it ends, what it says it did not do."""

import asyncio
from dataclasses import replace

import pytest
from typing_extensions import override

import broken_provider
from broken_provider import SMALL, BrokenProvider, Defect, examined
from mainstay.conformance.check import Broken, Check, Gate, Part, Together, gates
from mainstay.conformance.report import Grade, Outcome, Report, Result
from mainstay.conformance.restarts import Restarts
from mainstay.conformance.suite import Run, examine
from mainstay.conformance.table import CHECKS
from mainstay.conformance.trial import Trial
from mainstay.model.calls import Call, GetRequest, ListRequest
from mainstay.model.errors import Rejected, Unavailable
from mainstay.model.state import State
from mainstay.wire.raw_calls import Reply
from virtual_loop import LoopClock, run


def only(*names: str) -> list[Check]:
    return [check for check in CHECKS if check.id in names]


def result(report: Report, name: str) -> Result:
    return next(each for each in report.results if each.check.id == name)


def with_check(function: object, **parts: object) -> list[Check]:
    return [Check("X1", Part.CORE, function, **parts)]  # type: ignore[arg-type]


class TestTable:
    def test_every_id_is_given_once(self) -> None:
        names = [check.id for check in CHECKS]

        assert len(names) == len(set(names)) > 130

    def test_every_check_has_a_sentence(self) -> None:
        assert [check.id for check in CHECKS if len(check.title) < 20] == []

    def test_every_behaviour_of_the_reference_is_there(self) -> None:
        behaviours = {check.id for check in CHECKS if check.id.startswith("B")}
        ranges = {
            1: (1, 3, 4, 5, 6, 7, 8, 9), 2: range(1, 16), 3: (1, 2, 3, *range(5, 13)),
            4: range(1, 10), 5: range(1, 6), 7: range(1, 9), 8: range(1, 8), 9: range(1, 10),
            10: range(1, 8), 11: range(1, 10), 12: range(1, 6),
        }  # fmt: skip

        assert behaviours == {
            f"B{part}{number:02}" for part, numbers in ranges.items() for number in numbers
        }
        assert len(behaviours) == 93
        assert len([check for check in CHECKS if check.part is Part.BASELINE]) == 25


class TestPoliteness:
    def test_what_was_borrowed_is_given_back_as_it_was_found(self) -> None:
        whole = [check for check in CHECKS if check.part in {Part.BASELINE, Part.CORE}]

        report = examined(Defect.NONE, whole, torment=False)

        assert report.grade is Grade.CONFORMANT
        assert report.touched > 5
        assert report.left == ()

    def test_machines_that_serve_are_left_alone(self) -> None:
        async def scenario() -> None:
            provider = BrokenProvider(Defect.NONE)
            async with provider.running(), provider.connect() as line:
                at = broken_provider.caller(line)
                serving = [machine for machine in (await at.everything()) if "spot" in machine][:9]
                for machine in serving:
                    await at.create(machine)
                await asyncio.sleep(5)
                for machine in serving:
                    await at.configure(machine, cluster="of-somebody")
                await asyncio.sleep(5)
                before = [await at.get(machine) for machine in serving]

                report = await examine(run_of(provider, only("FullLifecycle", "B101", "B1203")))

                assert report.grade is Grade.CONFORMANT
                assert [await at.get(machine) for machine in serving] == before

        run(scenario())

    def test_too_few_machines_are_told_and_not_taken_for_success(self) -> None:
        async def greedy(at: Trial) -> None:
            """Nobody has so many machines."""
            await at.slots(10_000)

        report = examined(Defect.NONE, with_check(greedy))

        assert result(report, "X1").outcome is Outcome.NOT_RUN
        assert "too few machines" in result(report, "X1").why
        assert report.grade is Grade.INCOMPLETE
        assert report.left == ()

    def test_after_the_time_limit_nothing_is_begun(self) -> None:
        report = examined(Defect.NONE, only("B101"), replace(SMALL, all_s=0.0))

        assert result(report, "B101").outcome is Outcome.NOT_RUN
        assert result(report, "B101").why == "time is up: 0 s"
        assert report.touched == 0

    def test_a_check_that_does_not_end_is_ended(self) -> None:
        async def endless(at: Trial) -> None:
            """This never comes to an end."""
            await asyncio.sleep(1e9)

        report = examined(Defect.NONE, with_check(endless), replace(SMALL, check_s=3.0))

        assert result(report, "X1").why == "it did not come to an end within 3 s"

    def test_a_check_that_breaks_spoils_no_other(self) -> None:
        async def breaks(at: Trial) -> None:
            """This one has a bug."""
            raise KeyError("oh")

        report = examined(Defect.NONE, [*with_check(breaks), *only("B101")])

        assert result(report, "X1").why == "the check broke: KeyError: 'oh'"
        assert result(report, "B101").outcome is Outcome.PASSED


def run_of(provider: BrokenProvider, checks: list[Check]) -> Run:
    return Run(
        name="lab", connect=provider.connect, checks=checks, clock=LoopClock(), limits=SMALL
    )  # fmt: skip


class Answering(BrokenProvider):
    """Answers every call by one status."""

    def __init__(self, **by_call: str) -> None:
        super().__init__(Defect.NONE)
        self.by_call = by_call

    @override
    async def answer(self, call: Call, data: bytes, connection: int) -> Reply:
        status = self.by_call.get(call.value, "")
        if status:
            return Reply(status=status, details="says the test")
        return await super().answer(call, data, connection)


class AsBigFleets(BrokenProvider):
    """Declares nothing, cannot page (a cut list has the newest cursor), and may lack Delete."""

    def __init__(self, *, deletes: bool) -> None:
        super().__init__(Defect.NONE)
        self.deletes = deletes

    @override
    async def answer(self, call: Call, data: bytes, connection: int) -> Reply:
        if call is Call.DELETE and not self.deletes:
            return Reply(status="UNIMPLEMENTED")
        reply = await super().answer(call, data, connection)
        if call is not Call.LIST or not reply.ok:
            return reply
        head = (await super().answer(call, b"", connection)).cursor
        plain = replace(reply, capabilities=None, incremental=False, more=False)
        return replace(plain, cursor=head) if reply.more else plain


@pytest.mark.parametrize("deletes", [True, False])
def test_a_provider_without_our_additions_conforms(deletes: bool) -> None:
    async def scenario() -> Report:
        provider = AsBigFleets(deletes=deletes)
        async with provider.running():
            checks = [check for check in CHECKS if check.part is not Part.FAULT]
            return await examine(replace(run_of(provider, checks), torment=True))

    report = run(scenario())

    assert [(each.check.id, each.why) for each in report.results
            if each.outcome in {Outcome.FAILED, Outcome.NOT_RUN}] == []  # fmt: skip
    assert report.grade is Grade.CONFORMANT
    assert result(report, "M901").why == Gate.PAGING.value
    assert (result(report, "B409").outcome is Outcome.PASSED) is deletes
    assert (report.left == ()) is deletes  # what cannot be deleted stays Idle, and is told


class TestFirstLook:
    @pytest.mark.parametrize(
        ("by_call", "error", "says"),
        [
            ({"list": "UNAVAILABLE"}, Unavailable, "cannot be listed"),
            ({"list": "PERMISSION_DENIED"}, Rejected, "does not let us in"),
            ({"create": "PERMISSION_DENIED"}, Rejected, "lets us read, not act"),
        ],
    )
    def test_a_provider_that_does_not_let_us_in_is_one_error(
        self, by_call: dict[str, str], error: type[Exception], says: str
    ) -> None:
        async def scenario() -> None:
            provider = Answering(**by_call)
            async with provider.running():
                with pytest.raises(error, match=says):
                    await examine(run_of(provider, only("B101")))

        run(scenario())


class TestGates:
    def test_what_was_not_asked_for_is_told_apart(self) -> None:
        report = examined(Defect.NONE, only("T01", "B101"), torment=False)

        assert result(report, "T01").outcome is Outcome.NOT_ASKED
        assert report.grade is Grade.CONFORMANT

    def test_what_the_provider_does_not_have_does_not_apply(self) -> None:
        limits = replace(SMALL, scale_machines=1000)

        report = examined(Defect.NONE, only("B1101", "B101"), limits)

        assert result(report, "B1101").outcome is Outcome.NOT_APPLICABLE
        assert result(report, "B1101").why == Gate.SCALE.value


class TestRestarts:
    def test_one_restart_serves_everybody_and_comes_when_all_are_there(self) -> None:
        happened: list[str] = []

        async def restart() -> None:
            happened.append("restart")

        async def waiter(restarts: Restarts, name: str, after_s: float) -> None:
            await asyncio.sleep(after_s)

            async def begin() -> None:
                happened.append(f"begin {name}")

            await restarts.arrive(begin)
            happened.append(f"go on {name}")

        async def scenario() -> None:
            restarts = Restarts(restart)
            restarts.expect(3)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(restarts.run())
                tasks.create_task(waiter(restarts, "a", 1.0))
                tasks.create_task(waiter(restarts, "b", 2.0))
                await asyncio.sleep(3.0)
                assert happened == []
                restarts.leave()

        run(scenario())
        assert happened == ["begin a", "begin b", "restart", "go on a", "go on b"]

    def test_what_cannot_be_begun_is_told_to_its_own_check_alone(self) -> None:
        async def fine(at: Trial) -> None:
            """This one only waits."""
            await at.restarted()

        async def bad(at: Trial) -> None:
            """This one begins something that cannot be."""

            async def begin() -> None:
                raise Broken("it cannot be begun")

            await at.restarted(begin)

        row = {"gates": gates(Gate.RESTART), "together": Together.RESTARTS}
        checks = [
            Check("X1", Part.DURABLE, fine, **row),  # type: ignore[arg-type]
            Check("X2", Part.DURABLE, bad, **row),  # type: ignore[arg-type]
        ]

        report = examined(Defect.NONE, checks)

        assert result(report, "X1").outcome is Outcome.PASSED
        assert result(report, "X2").why == "it cannot be begun"


def test_the_broken_provider_is_sound_but_for_its_defects() -> None:
    async def scenario() -> None:
        provider = BrokenProvider(Defect.NONE)
        async with provider.running(), provider.connect() as line:
            at = broken_provider.caller(line)
            for request in (ListRequest(), GetRequest("no-such")):
                assert replace(await at.ask(request), asked="") == await provider.soundly(request)
            await provider.restart()
            states = {record.state for record in (await at.everything()).values()}
            assert states == {State.SPECULATIVE, State.IDLE}

    run(scenario())
