"""Instructions: none of an old leader's, each once, also over a restart, none lost."""

import asyncio

import pytest
from typing_extensions import override

from mainstay.model.coordination import (
    Handed,
    InstructAck,
    Instruction,
    Outcome,
    ReportAck,
    ShardReport,
)
from mainstay.model.errors import Unavailable
from mainstay.model.ids import MachineId
from mainstay.uplink.instructions import ANSWER_MAX, INSTRUCTIONS_MAX, TERM_MAX
from mainstay.uplink.ports import Measured
from uplinking import Disk, Fleet, NotingSide, accepted, always, an_instruction, linked, never
from virtual_loop import run


async def not_yet(_: Instruction) -> InstructAck | None:
    return None


async def fails(_: Instruction) -> InstructAck | None:
    raise Unavailable("the disk is full")


def test_a_batch_of_a_lower_term_than_was_heard_is_refused_as_a_whole() -> None:
    async def scenario() -> None:
        side = NotingSide(Disk(term=5))
        fleet = Fleet(an_instruction("a", term=4), an_instruction("b", term=9), term=4)
        async with linked(side, fleet) as link:
            await asyncio.sleep(1)

            stale = Outcome.REJECTED_STALE
            assert fleet.acks(1) == {"a": stale, "b": stale}
            assert (side.did, side.term, side.grants) == ([], 5, [])
            assert link.metric("reports_total", outcome="stale") == 2
            assert link.metric("instructions_total", outcome="stale") >= 2

    run(scenario())


def test_a_single_instruction_of_a_lower_term_is_refused() -> None:
    async def scenario() -> None:
        side, fleet = NotingSide(), Fleet(an_instruction("a", term=4), term=5)
        async with linked(side, fleet):
            await asyncio.sleep(1)

            assert fleet.acks(1) == {"a": Outcome.REJECTED_STALE}
            assert side.did == ["term 5"]

    run(scenario())


def test_the_term_that_was_heard_last_is_good_enough() -> None:
    async def scenario() -> None:
        side = NotingSide(Disk(term=5))
        async with linked(side, Fleet(an_instruction("a", term=5), term=5)):
            await asyncio.sleep(0.3)

            assert side.did == ["a"]

    run(scenario())


def test_a_higher_term_is_durable_before_anything_of_it_is_begun() -> None:
    async def scenario() -> None:
        side = NotingSide(Disk(term=5))
        async with linked(side, Fleet(an_instruction("a", term=6), term=6)):
            await asyncio.sleep(0.3)

            assert side.did == ["term 6", "a"]

    run(scenario())


def test_nothing_of_a_term_that_cannot_be_kept_is_begun() -> None:
    async def scenario() -> None:
        side = NotingSide(Disk(term=5))
        side.fails = {"hear_term"}
        async with linked(side, Fleet(an_instruction("a", term=6), term=6)):
            await asyncio.sleep(20)
            assert side.did == []

            side.fails = set()
            await asyncio.sleep(20)
            assert side.did == ["term 6", "a"]

    run(scenario())


def test_every_report_says_which_term_was_heard() -> None:
    async def scenario() -> None:
        side = NotingSide(Disk(term=5))
        fleet = Fleet(term=6)
        async with linked(side, fleet):
            await asyncio.sleep(31)

            assert [report.term_seen for _, report in fleet.heard] == [5, 6]

    run(scenario())


def test_instructions_are_carried_out_in_the_order_of_their_numbers() -> None:
    async def scenario() -> None:
        side = NotingSide()
        numbers = (3, 1, 2)
        async with linked(side, Fleet(*(an_instruction(f"i{n}", sequence=n) for n in numbers))):
            await asyncio.sleep(0.3)

            assert side.did == ["term 1", "i1", "i2", "i3"]

    run(scenario())


def test_what_is_delivered_again_is_acknowledged_again_with_what_was_given_and_not_run() -> None:
    async def scenario() -> None:
        side, gave = NotingSide(), (Handed(MachineId("m"), "sim", None),)
        ack = InstructAck(instruction="a", outcome=Outcome.ACCEPTED, given=gave)
        side.carries["a"] = always(ack)
        fleet = Fleet()
        fleet.answers = always(ReportAck(term=1, instructions=(an_instruction("a"),)))
        async with linked(side, fleet) as link:
            await asyncio.sleep(3)

            assert len(fleet.heard) >= 3
            assert all(report.acks == (ack,) for _, report in fleet.heard[1:])
            assert side.did == ["term 1", "a"]
            assert link.metric("instructions_total", outcome="again") >= 2

    run(scenario())


def test_what_is_delivered_again_after_a_restart_is_acknowledged_again_and_not_run() -> None:
    async def scenario() -> None:
        disk, fleet = Disk(), Fleet(an_instruction("a"))
        async with linked(NotingSide(disk), fleet):
            await asyncio.sleep(0.3)  # carried out, and killed before the next report
        assert fleet.pending
        fleet.heard.clear()
        after = NotingSide(disk)
        fleet.answers = always(ReportAck(term=1, instructions=tuple(fleet.pending.values())))
        async with linked(after, fleet):
            await asyncio.sleep(1)

            assert fleet.acks(1) == {"a": Outcome.ACCEPTED}
            assert after.did == []

    run(scenario())


def test_the_first_report_after_a_kill_already_acknowledges_what_was_carried_out() -> None:
    """It also says what is owned now: one without the other would be a machine lost or doubled."""

    async def scenario() -> None:
        disk, fleet = Disk(), Fleet(an_instruction("a"))
        async with linked(NotingSide(disk), fleet):
            await asyncio.sleep(0.3)
        fleet.heard.clear()
        async with linked(NotingSide(disk), fleet):
            await asyncio.sleep(0.3)

            assert fleet.acks(0) == {"a": Outcome.ACCEPTED}
            assert not fleet.pending

    run(scenario())


def test_an_instruction_of_an_unknown_kind_is_refused_as_invalid() -> None:
    async def scenario() -> None:
        side, fleet = NotingSide(), Fleet(an_instruction("a", known=False))
        async with linked(side, fleet):
            await asyncio.sleep(1)

            assert fleet.acks(1) == {"a": Outcome.REJECTED_INVALID}
            assert side.did == ["term 1"]

    run(scenario())


def test_what_failed_is_said_to_have_failed_and_is_run_when_it_is_offered_again() -> None:
    async def scenario() -> None:
        side, fleet = NotingSide(), Fleet(an_instruction("a"))
        side.carries["a"] = fails
        async with linked(side, fleet):
            await asyncio.sleep(1)
            assert fleet.acks(1) == {"a": Outcome.FAILED}
            assert fleet.heard[1][1].acks[0].reason == "the disk is full"

            del side.carries["a"]
            await asyncio.sleep(40)
            assert not fleet.pending
            assert "a" in side.disk.done

    run(scenario())


def test_a_defect_in_carrying_out_is_a_failure_of_that_instruction_only() -> None:
    async def scenario() -> None:
        side = NotingSide()
        fleet = Fleet(an_instruction("a"), an_instruction("b", sequence=2))

        async def defect(_: Instruction) -> InstructAck | None:
            raise KeyError("nobody thought of this")

        side.carries["a"] = defect
        async with linked(side, fleet) as link:
            await asyncio.sleep(1)

            assert fleet.acks(1) == {"a": Outcome.FAILED, "b": Outcome.ACCEPTED}
            assert link.metric("defects_total") >= 1

    run(scenario())


def test_what_cannot_be_done_yet_is_not_acknowledged_and_holds_up_nothing() -> None:
    async def scenario() -> None:
        side = NotingSide()
        side.carries["a"] = not_yet
        fleet = Fleet(an_instruction("a"), an_instruction("b", sequence=2))
        async with linked(side, fleet):
            await asyncio.sleep(1)

            assert fleet.acks(1) == {"b": Outcome.ACCEPTED}
            assert list(fleet.pending) == ["a"]

    run(scenario())


def test_what_could_not_be_done_yet_is_carried_on_with_although_no_answer_comes() -> None:
    async def scenario() -> None:
        side, fleet = NotingSide(), Fleet(an_instruction("a"))
        side.carries["a"] = not_yet
        async with linked(side, fleet):
            await asyncio.sleep(0.3)
            fleet.answers = never
            del side.carries["a"]
            await asyncio.sleep(2)
            assert "a" in side.disk.done

            fleet.answers = None
            await asyncio.sleep(40)
            assert not fleet.pending
            assert side.did.count("a") == 2

    run(scenario())


def test_what_is_no_longer_offered_is_no_longer_carried_on_with() -> None:
    async def scenario() -> None:
        side, fleet = NotingSide(), Fleet(an_instruction("a"))
        side.carries["a"] = not_yet
        async with linked(side, fleet):
            await asyncio.sleep(5)
            assert "a" in side.did

            fleet.pending.clear()
            await asyncio.sleep(30)
            side.did.clear()
            await asyncio.sleep(30)
            assert side.did == []

    run(scenario())


def test_of_two_instructions_with_one_id_one_is_carried_out() -> None:
    async def scenario() -> None:
        side, fleet = NotingSide(), Fleet()
        twice = (an_instruction("a", sequence=2), an_instruction("a", sequence=1))
        fleet.answers = always(ReportAck(term=1, instructions=twice))
        async with linked(side, fleet):
            await asyncio.sleep(5)

            assert side.did == ["term 1", "a"]

    run(scenario())


def test_of_two_instructions_with_one_id_one_is_tried() -> None:
    async def scenario() -> None:
        side, fleet = NotingSide(), Fleet()
        side.carries["a"] = not_yet
        twice = (an_instruction("a", sequence=2), an_instruction("a", sequence=1))
        fleet.answers = always(ReportAck(term=1, instructions=twice))
        async with linked(side, fleet):
            await asyncio.sleep(0.3)

            assert side.did == ["term 1", "a"]

    run(scenario())


def test_refusals_do_not_pile_up_for_an_old_leader_that_says_something_new_each_time() -> None:
    async def scenario() -> None:
        fleet = Fleet()

        async def something_new(_: ShardReport) -> ReportAck:
            return ReportAck(term=4, instructions=(an_instruction(f"i{len(fleet.heard)}"),))

        fleet.answers = something_new
        async with linked(NotingSide(Disk(term=5)), fleet):
            await asyncio.sleep(100)

            assert [len(report.acks) for _, report in fleet.heard[1:5]] == [1, 1, 1, 1]

    run(scenario())


def test_an_answer_with_more_than_can_be_looked_at_is_taken_from_its_beginning() -> None:
    async def scenario() -> None:
        side = NotingSide()
        many = [an_instruction(f"i{n:04}", sequence=n) for n in range(INSTRUCTIONS_MAX + 10)]
        fleet = Fleet(*reversed(many))
        async with linked(side, fleet):
            await asyncio.sleep(1)
            assert side.did[1:] == [each.id for each in many[:INSTRUCTIONS_MAX]]

            await asyncio.sleep(3)
            assert not fleet.pending

    run(scenario())


@pytest.mark.parametrize(
    "nonsense",
    [
        ReportAck(term=-1),
        ReportAck(term=TERM_MAX + 1),
        ReportAck(term=1, acknowledged=False, instructions=(an_instruction("a"),)),
        ReportAck(term=1, instructions=(an_instruction("a", term=TERM_MAX + 1),)),
        ReportAck(term=1, instructions=(an_instruction(""),)),
        ReportAck(term=1, instructions=(an_instruction("x" * 1_000_000),)),
        ReportAck(term=1, instructions=(an_instruction("a"),) * (ANSWER_MAX + 1)),
    ],
    ids=["below", "above", "unacknowledged", "instruction", "nameless", "long", "many"],
)
def test_of_an_answer_that_no_coordinator_gives_nothing_counts(nonsense: ReportAck) -> None:
    """A term without room above it would lock out every leader that comes after."""

    async def scenario() -> None:
        side, fleet = NotingSide(Disk(done={"d": accepted("d")})), Fleet()
        fleet.answers = always(nonsense)
        async with linked(side, fleet) as link:
            await asyncio.sleep(10)

            assert (side.did, side.term, side.grants) == ([], 0, [])
            assert all(report.acks == (accepted("d"),) for _, report in fleet.heard)
            assert link.metric("reports_total", outcome="nonsense") == len(fleet.heard) > 1

    run(scenario())


def test_what_was_carried_out_is_said_until_a_leader_that_is_not_old_has_heard_it() -> None:
    async def scenario() -> None:
        side, fleet = NotingSide(), Fleet(an_instruction("a", term=5), term=5)
        async with linked(side, fleet):
            await asyncio.sleep(0.3)
            fleet.answers = always(ReportAck(term=4))
            await asyncio.sleep(40)
            assert fleet.acks(-1) == {"a": Outcome.ACCEPTED}

            fleet.answers = None
            await asyncio.sleep(40)
            assert not fleet.pending
            await asyncio.sleep(40)
            assert fleet.acks(-1) == {}

    run(scenario())


def test_nothing_is_reported_while_something_is_being_carried_out() -> None:
    """What is owned and what is acknowledged are read at one moment."""

    class Watched(NotingSide):
        busy = False
        reported_busy = False

        @override
        def report(self, measured: Measured) -> ShardReport:
            self.reported_busy = self.reported_busy or self.busy
            return super().report(measured)

    async def scenario() -> None:
        side = Watched()

        async def slowly(instruction: Instruction) -> InstructAck | None:
            side.busy = True
            await asyncio.sleep(50)
            side.busy = False
            return accepted(instruction.id) if len(side.did) > 2 else None

        side.carries["a"] = slowly
        fleet = Fleet(an_instruction("a"))
        async with linked(side, fleet):
            await asyncio.sleep(300)

            assert not side.reported_busy
            assert not fleet.pending

    run(scenario())
