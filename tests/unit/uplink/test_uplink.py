"""When it reports, what it does while nobody answers, and that nothing ends it."""

import asyncio
import itertools

import pytest

from mainstay.model.coordination import (
    Grant,
    InstructAck,
    Outcome,
    QuotaKind,
    QuotaOf,
    ReportAck,
    ShardReport,
)
from mainstay.model.errors import Fenced, NotLeading, Rejected, Unavailable
from mainstay.uplink.uplink import UplinkOptions
from uplinking import (
    Disk,
    Fleet,
    NotingSide,
    accepted,
    always,
    an_instruction,
    linked,
    never,
    raising,
)
from virtual_loop import LoopClock, run


def test_one_report_is_made_at_once_and_then_one_every_interval() -> None:
    async def scenario() -> None:
        fleet = Fleet()
        async with linked(NotingSide(), fleet):
            await asyncio.sleep(100)

            assert fleet.at_s == [0.0, 30.0, 60.0, 90.0]

    run(scenario())


def test_the_interval_is_a_setting() -> None:
    async def scenario() -> None:
        fleet = Fleet()
        async with linked(NotingSide(), fleet, UplinkOptions(report_interval_s=10)):
            await asyncio.sleep(25)

            assert fleet.at_s == [0.0, 10.0, 20.0]

    run(scenario())


def test_what_was_handled_is_reported_soon() -> None:
    async def scenario() -> None:
        fleet = Fleet(an_instruction("a"))
        async with linked(NotingSide(), fleet):
            await asyncio.sleep(2)

            assert fleet.at_s == [0.0, 0.5]
            assert not fleet.pending

    run(scenario())


def test_what_was_carried_on_with_between_two_reports_is_reported_soon() -> None:
    async def scenario() -> None:
        side, fleet = NotingSide(), Fleet(an_instruction("a"))

        async def after_ten_seconds(_: object) -> InstructAck | None:
            return accepted("a") if LoopClock().elapsed_s() > 10 else None

        side.carries["a"] = after_ten_seconds
        async with linked(side, fleet):
            await asyncio.sleep(15)

            assert not fleet.pending
            assert fleet.at_s[1] < 12

    run(scenario())


def test_what_brings_nothing_forward_is_asked_at_longer_and_longer_distances() -> None:
    """It fails at every report, or is an old leader's: a report a second would help nobody."""

    async def scenario() -> None:
        side, fleet = NotingSide(), Fleet(an_instruction("a"))
        side.carries["a"] = always(InstructAck(instruction="a", outcome=Outcome.FAILED))
        async with linked(side, fleet):
            await asyncio.sleep(3_600)

            pauses = [later - earlier for earlier, later in itertools.pairwise(fleet.at_s)]
            assert pauses[0] == pytest.approx(0.5, abs=0.1)
            assert all(later > earlier - 0.2 for earlier, later in itertools.pairwise(pauses))
            assert pauses[-1] == pytest.approx(30, abs=0.1)

    run(scenario())


def test_what_goes_forward_goes_on_without_a_longer_pause() -> None:
    async def scenario() -> None:
        fleet = Fleet()

        async def the_next(report: ShardReport) -> ReportAck:
            fleet.pending = {"": an_instruction(f"i{len(fleet.heard)}")}
            return fleet.truth(report)

        fleet.answers = the_next
        async with linked(NotingSide(), fleet):
            await asyncio.sleep(20)

            pauses = [later - earlier for earlier, later in itertools.pairwise(fleet.at_s)]
            assert max(pauses) < 0.8

    run(scenario())


def test_after_an_answer_the_next_failure_is_followed_by_a_short_pause_again() -> None:
    async def scenario() -> None:
        fleet = Fleet()
        fleet.answers = raising(Unavailable("away"))
        async with linked(NotingSide(), fleet):
            await asyncio.sleep(600)
            fleet.answers = None
            await asyncio.sleep(16)
            fleet.answers = raising(Unavailable("away"))
            await asyncio.sleep(35)

            answered = next(n for n, at_s in enumerate(fleet.at_s) if at_s >= 600)
            failed, again = fleet.at_s[answered + 1 : answered + 3]
            assert again - failed <= 1.1

    run(scenario())


def test_every_attempt_has_a_number_of_its_own() -> None:
    async def scenario() -> None:
        fleet = Fleet()
        fleet.answers = raising(Unavailable("away"))
        async with linked(NotingSide(), fleet):
            await asyncio.sleep(30)
            fleet.answers = None
            await asyncio.sleep(60)

            numbers = [report.number for _, report in fleet.heard]
            assert numbers == list(range(1, len(numbers) + 1))
            assert len(numbers) > 4

    run(scenario())


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (Unavailable("away"), "unheard"),
        (NotLeading("ask another"), "unheard"),
        (TimeoutError(), "unheard"),
        (asyncio.CancelledError(), "unheard"),
        (Rejected("out of order"), "refused"),
        (Fenced("a newer life has reported"), "fenced"),
        (ValueError("garbage"), "nonsense"),
    ],
)
def test_a_failed_report_loses_no_ack(error: BaseException, outcome: str) -> None:
    async def scenario() -> None:
        side, fleet = NotingSide(), Fleet(an_instruction("a"))
        async with linked(side, fleet) as link:
            await asyncio.sleep(0.3)
            fleet.answers = raising(error)
            await asyncio.sleep(60)
            assert all(fleet.acks(n) == {"a": Outcome.ACCEPTED} for n in range(1, len(fleet.heard)))
            assert link.metric("reports_total", outcome=outcome) == len(fleet.heard) - 1 > 1

            fleet.answers = None
            await asyncio.sleep(60)
            assert not fleet.pending
            assert side.did.count("a") == 1

    run(scenario())


def test_an_ack_whose_confirmation_was_lost_is_said_again() -> None:
    async def scenario() -> None:
        side, fleet = NotingSide(), Fleet(an_instruction("a"))

        async def heard_but_not_answered(report: ShardReport) -> ReportAck:
            fleet.truth(report)
            return await never(report)

        async with linked(side, fleet):
            await asyncio.sleep(0.3)
            fleet.answers = heard_but_not_answered
            await asyncio.sleep(60)
            assert not fleet.pending
            assert fleet.acks(-1) == {"a": Outcome.ACCEPTED}

            fleet.answers = None
            await asyncio.sleep(60)
            assert fleet.acks(-1) == {}

    run(scenario())


def test_a_report_that_was_refused_is_repeated_with_the_acks_of_what_was_done_only() -> None:
    async def scenario() -> None:
        side = NotingSide(Disk(term=1))
        fleet = Fleet(an_instruction("a"), an_instruction("b", known=False))
        async with linked(side, fleet):
            await asyncio.sleep(0.3)
            fleet.answers = raising(Rejected("too large"))
            await asyncio.sleep(30)

            assert fleet.acks(1).keys() == {"a", "b"}
            assert fleet.acks(2).keys() == {"a"}

    run(scenario())


def test_a_coordinator_that_hangs_is_given_up_on_after_a_while() -> None:
    async def scenario() -> None:
        fleet = Fleet()
        fleet.answers = never
        async with linked(NotingSide(), fleet) as link:
            await asyncio.sleep(100)

            assert 4 <= len(fleet.heard) <= 10
            assert link.metric("reports_total", outcome="unheard") >= 3
            assert link.metric("silence_seconds") == 100

    run(scenario())


def test_attempts_come_later_and_later_never_later_than_a_quarter_of_a_minute() -> None:
    async def scenario() -> None:
        fleet = Fleet()
        fleet.answers = raising(Unavailable("away"))
        async with linked(NotingSide(), fleet):
            await asyncio.sleep(600)

            pauses = [later - earlier for earlier, later in itertools.pairwise(fleet.at_s)]
            assert pauses[0] <= 1.1
            assert max(pauses) <= 15.1
            assert max(pauses) > 5
            assert len(set(pauses[5:])) > 10, "all shards would come back at the same moment"

    run(scenario())


def test_a_coordinator_that_comes_back_is_noticed_within_a_quarter_of_a_minute() -> None:
    async def scenario() -> None:
        fleet = Fleet()
        fleet.answers = raising(Unavailable("away"))
        async with linked(NotingSide(), fleet) as link:
            await asyncio.sleep(600)
            fleet.answers = None
            await asyncio.sleep(16)

            assert link.metric("reports_total", outcome="answered") == 1
            assert link.metric("silence_seconds") < 16

    run(scenario())


@pytest.mark.parametrize("part", ["measured", "report", "sweep", "hear_term"])
def test_a_defect_of_ours_is_told_and_it_goes_on(part: str) -> None:
    async def scenario() -> None:
        side, fleet = NotingSide(), Fleet(an_instruction("a"))
        side.fails = {part}
        async with linked(side, fleet) as link:
            await asyncio.sleep(60)
            assert 1 < link.metric("defects_total") <= 15

            side.fails = set()
            await asyncio.sleep(60)
            assert not fleet.pending
            assert side.swept_s[-1] > 100

    run(scenario())


def test_a_shard_that_cannot_be_counted_reports_all_the_same() -> None:
    async def scenario() -> None:
        side, fleet = NotingSide(), Fleet(an_instruction("a"))
        side.fails = {"measured"}
        async with linked(side, fleet):
            await asyncio.sleep(2)

            assert not fleet.pending

    run(scenario())


def test_it_sweeps_about_every_second_whether_or_not_anybody_answers() -> None:
    async def scenario() -> None:
        side, fleet = NotingSide(), Fleet()
        fleet.answers = never
        async with linked(side, fleet):
            await asyncio.sleep(20.5)

            assert len(side.swept_s) == 20

    run(scenario())


def test_a_shard_is_not_counted_again_for_each_of_many_reports() -> None:
    async def scenario() -> None:
        side, fleet = NotingSide(), Fleet()
        async with linked(side, fleet, UplinkOptions(report_interval_s=0.5)):
            await asyncio.sleep(20)

            assert len(fleet.heard) > 30
            assert side.measurements <= 5

    run(scenario())


def test_what_may_be_held_is_heard_with_every_answer_but_an_old_leaders() -> None:
    async def scenario() -> None:
        side, fleet = NotingSide(), Fleet(term=3)
        grant = Grant(QuotaOf(QuotaKind.CLUSTER, "web"), granted=4, target=-1)
        fleet.grants = (grant,)
        async with linked(side, fleet):
            await asyncio.sleep(1)
            assert side.grants == [(grant,)]

            fleet.term = 2
            await asyncio.sleep(60)
            assert side.grants == [(grant,)]

    run(scenario())


def test_a_grant_that_cannot_be_is_no_defect_of_ours_and_holds_up_nothing_else() -> None:
    async def scenario() -> None:
        side, fleet = NotingSide(), Fleet(an_instruction("a"))
        side.fails = {"hear_grants"}
        async with linked(side, fleet) as link:
            await asyncio.sleep(20)

            assert not fleet.pending
            assert link.metric("defects_total") == 0
            assert 3 <= len(fleet.heard) <= 5

    run(scenario())


def test_it_shows_how_it_stands() -> None:
    async def scenario() -> None:
        side, fleet = NotingSide(), Fleet(an_instruction("a", term=7), term=7)
        async with linked(side, fleet) as link:
            await asyncio.sleep(0.3)
            shown = [link.metric(name) for name in ("term", "acks_waiting", "strays")]

            assert shown == [7, 1, 3]
            await asyncio.sleep(1)
            assert link.metric("acks_waiting") == 0

    run(scenario())


def test_it_ends_when_it_is_told_to_although_it_waits_for_an_answer() -> None:
    async def scenario() -> None:
        fleet = Fleet()
        fleet.answers = never
        async with linked(NotingSide(), fleet) as link:
            await asyncio.sleep(1)
        assert link.task.cancelled()

    run(scenario())
