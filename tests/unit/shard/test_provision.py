"""Provision: a quota slot becomes hardware, for the need that asked."""

import dataclasses
import math

import pytest

from builders import a_need, a_need_profile
from mainstay.model.action import ActionKind
from mainstay.model.assignment import NO_ASSIGNMENT
from mainstay.model.calls import Call, CreateRequest
from mainstay.model.commitment import commitment, full_commitment
from mainstay.model.errors import MainstayError, NoCapacity, Rejected, Unavailable
from mainstay.model.machine import Machine
from mainstay.model.metadata import decode
from mainstay.model.profile import HostRef
from mainstay.model.resources import Resources
from mainstay.model.state import State
from mainstay.shard.events import Event
from mainstay.shard.outcomes import Outcome
from mainstay.shard.restrictions import Stance
from shard_hands import WEB, M, a_link, an_order, carried_out, changed, finished, hands, in_time

PROVISION = an_order(ActionKind.PROVISION)
NEED = a_need()


class TestCommitment:
    def test_it_names_the_need_while_a_machine_is_made(self) -> None:
        need = a_need(group="gang-1")
        made = commitment(need)

        assert (made.fingerprint, made.group, made.cluster) == (
            need.profile.fingerprint, "gang-1", WEB,
        )  # fmt: skip
        assert made.priority is None

    def test_it_holds_priority_and_both_penalties_once_a_machine_joins(self) -> None:
        profile = a_need_profile(
            priority=7, interruption_penalty_bucket=4, reclamation_penalty_bucket=2
        )
        made = full_commitment(a_need(profile=profile))

        assert made.priority == 7
        assert made.interruption_penalty_dollars == 2.0
        assert made.reclamation_penalty_dollars == 0.5


class TestProvision:
    def test_the_need_is_stamped_before_the_provider_is_asked(self) -> None:
        async def scenario() -> None:
            link = a_link(State.SPECULATIVE)
            world = hands(link)
            seen: list[Machine] = []

            def sees(told: Machine) -> Machine:
                seen.append(world.machine())
                return told

            link.will(Call.CREATE, sees)
            await carried_out(world, PROVISION)
            assert [each.state for each in seen] == [State.CREATING]
            assert seen[0].assignment == commitment(NEED)

        in_time(scenario)

    def test_the_provider_is_told_which_need_it_is_for(self) -> None:
        async def scenario() -> None:
            world = await carried_out(hands(a_link(State.SPECULATIVE)), PROVISION)
            (request,) = world.link.asked(Call.CREATE)
            assert isinstance(request, CreateRequest)
            assert decode(request.attribution).assignment == commitment(NEED)

        in_time(scenario)

    def test_one_that_is_made_at_once_joins_at_once(self) -> None:
        async def scenario() -> None:
            world = await carried_out(hands(a_link(State.SPECULATIVE)), PROVISION)
            assert [call for call, _ in world.link.calls] == [Call.CREATE, Call.CONFIGURE]
            machine = world.machine()
            assert machine.state is State.CONFIGURED
            assert machine.host == HostRef("metal", M)
            assert machine.assignment == full_commitment(NEED)
            assert world.journal.outcomes() == [Outcome.SUCCESS]
            assert world.failures.good == [M, M]

        in_time(scenario)

    def test_a_cluster_that_is_left_alone_is_not_asked_and_the_machine_rests(self) -> None:
        """However many slots become machines: the rails say when it is asked again."""

        async def scenario() -> None:
            world = hands(a_link(State.SPECULATIVE))
            world.tools.backoff.failed(WEB)
            await carried_out(world, PROVISION)
            assert world.machine().state is State.IDLE
            assert world.journal.outcomes() == [Outcome.SUCCESS]
            assert world.clusters.asked == []

        in_time(scenario)

    def test_one_that_is_still_being_made_stays_creating(self) -> None:
        async def scenario() -> None:
            world = await carried_out(hands(a_link(State.SPECULATIVE, slow=True)), PROVISION)
            assert world.machine().state is State.CREATING
            assert world.machine().assignment == commitment(NEED)
            assert world.journal.outcomes() == [Outcome.ACCEPTED]
            assert [call for call, _ in world.link.calls] == [Call.CREATE]
            assert not world.failures.good

        in_time(scenario)

    @pytest.mark.parametrize("slow", [True, False])
    def test_the_ack_says_what_it_costs_and_holds(self, slow: bool) -> None:
        async def scenario() -> None:
            link = a_link(State.SPECULATIVE, slow=slow)
            news = {
                "price_per_hour": 9.5,
                "interruption_probability": 0.25,
                "allocatable": Resources({"cpu": "7"}),
            }
            link.will(Call.CREATE, changed(**news))
            link.will(Call.CONFIGURE, 500.0)
            world = await carried_out(hands(link, call_timeout_s=900), PROVISION, wait_s=1)
            machine = world.machine()
            assert {name: getattr(machine, name) for name in news} == news

        in_time(scenario)

    def test_our_own_assignment_stays_whatever_the_ack_echoes(self) -> None:
        async def scenario() -> None:
            link = a_link(State.SPECULATIVE, slow=True)
            link.will(
                Call.CREATE,
                changed(shard_metadata={"bigfleet.lucy.sh/assigned-need-fingerprint": "else"}),
            )
            world = await carried_out(hands(link), PROVISION)
            assert world.machine().assignment == commitment(NEED)

        in_time(scenario)

    @pytest.mark.parametrize("slow", [True, False])
    @pytest.mark.parametrize(
        "wrong",
        [
            {"price_per_hour": -1.0},
            {"interruption_probability": 1.5},
            {"price_per_hour": math.nan},
        ],
    )
    def test_S73_an_ack_that_cannot_be_is_failed_and_never_repeated(
        self, wrong: dict[str, float], slow: bool
    ) -> None:
        async def scenario() -> None:
            link = a_link(State.SPECULATIVE, slow=slow)
            link.will(Call.CREATE, changed(**wrong))
            world = await carried_out(hands(link), PROVISION)
            machine = world.machine()
            assert machine.state is State.FAILED
            assert machine.last_error.startswith(f"create: machine {M}: ")
            assert world.journal.outcomes() == [Outcome.REFUSED_ACK]
            assert len(link.calls) == 1
            assert world.failures.bad == [M]

        in_time(scenario)

    def test_an_ack_of_another_machine_is_refused(self) -> None:
        async def scenario() -> None:
            link = a_link(State.SPECULATIVE)
            link.will(Call.CREATE, changed(id="m-2"))
            world = await carried_out(hands(link), PROVISION)
            assert world.machine().state is State.FAILED
            assert "m-2" in world.machine().last_error
            assert world.journal.outcomes() == [Outcome.REFUSED_ACK]

        in_time(scenario)

    def test_an_old_ack_is_no_news_and_the_machine_is_finished_by_a_list(self) -> None:
        async def scenario() -> None:
            link = a_link(State.SPECULATIVE)
            old = changed(state=State.DELETING)
            link.will(Call.CREATE, old)
            world = await carried_out(hands(link), PROVISION)
            assert world.machine().state is State.CREATING
            assert world.machine().assignment == commitment(NEED)
            assert world.journal.outcomes() == [Outcome.ACCEPTED]

        in_time(scenario)

    def test_an_ack_that_says_failed_is_a_failure_with_its_diagnosis(self) -> None:
        async def scenario() -> None:
            link = a_link(State.SPECULATIVE)
            link.will(Call.CREATE, changed(state=State.FAILED, last_error="no power"))
            world = await carried_out(hands(link), PROVISION)
            assert world.machine().last_error == "create: no power"
            assert world.journal.outcomes() == [Outcome.PROVIDER_ERROR]
            assert world.failures.bad == [M]

        in_time(scenario)

    @pytest.mark.parametrize(
        ("error", "outcome", "counted"),
        [
            (NoCapacity("sold out"), Outcome.NO_CAPACITY, False),
            (Rejected("no such image"), Outcome.PROVIDER_ERROR, True),
            (MainstayError("confused"), Outcome.PROVIDER_ERROR, True),
        ],
    )
    def test_a_refusal_is_failed_with_the_providers_words_and_not_repeated(
        self, error: MainstayError, outcome: Outcome, counted: bool
    ) -> None:
        async def scenario() -> None:
            link = a_link(State.SPECULATIVE)
            link.will(Call.CREATE, error)
            world = await carried_out(hands(link), PROVISION)
            assert world.machine().state is State.FAILED
            assert world.machine().last_error == f"create: {error.message}"
            assert world.journal.outcomes() == [outcome]
            assert world.journal.reasons(Event.MACHINE_FAILED) == [outcome.value]
            assert len(link.calls) == 1
            assert world.failures.bad == [M] * counted

        in_time(scenario)

    def test_a_provider_that_is_out_of_reach_is_no_fault_of_the_rack(self) -> None:
        """Or an outage of one provider would keep the others in its zone from being used."""

        async def scenario() -> None:
            link = a_link(State.SPECULATIVE)
            link.will(Call.CREATE, *[Unavailable("no route")] * 1000)
            world = await carried_out(hands(link), PROVISION)
            assert world.machine().last_error == "create: no route"
            assert world.journal.outcomes() == [Outcome.PROVIDER_ERROR]
            assert world.failures.bad == []

        in_time(scenario)

    def test_a_slot_that_has_moved_on_is_left_alone(self) -> None:
        async def scenario() -> None:
            link = a_link(State.SPECULATIVE)
            world = hands(link)
            executor = world.executor()
            executor.offer([PROVISION], cycle=1)
            world.tools.moves.to(M, State.CREATING)
            await finished(executor)
            assert world.journal.outcomes() == [Outcome.STALE_STATE]
            assert world.link.calls == []

        in_time(scenario)

    def test_when_the_cluster_is_away_the_new_machine_waits_at_idle(self) -> None:
        async def scenario() -> None:
            world = hands(a_link(State.SPECULATIVE))
            world.clusters.absent.add(WEB)
            await carried_out(world, PROVISION)
            machine = world.machine()
            assert (machine.state, machine.assignment) == (State.IDLE, NO_ASSIGNMENT)
            assert world.journal.outcomes() == [Outcome.NO_SESSION]

        in_time(scenario)

    def test_both_calls_share_one_deadline(self) -> None:
        async def scenario() -> None:
            link = a_link(State.SPECULATIVE)
            link.will(Call.CREATE, 9.0)
            world = await carried_out(hands(link), PROVISION)
            assert world.clusters.asked == [(WEB, (), 21.0)]

        in_time(scenario)

    def test_an_order_for_nobody_is_a_defect_and_touches_nothing(self) -> None:
        async def scenario() -> None:
            order = dataclasses.replace(PROVISION, need=None)
            world = await carried_out(hands(a_link(State.SPECULATIVE)), order)
            assert world.machine().state is State.SPECULATIVE
            assert world.journal.outcomes() == [Outcome.TRANSITION_ERROR]
            assert world.journal.reasons(Event.WORKER_FAILED) == ["provision"]

        in_time(scenario)


def test_a_machine_that_is_made_under_a_pause_is_not_joined() -> None:
    """The provider had been asked to make it; it is not asked for more."""

    async def scenario() -> None:
        link, paused = a_link(State.SPECULATIVE), list[bool]()
        world = hands(link)
        stance = lambda _: Stance.PAUSE if paused else Stance.ACT  # noqa: E731
        world.tools = dataclasses.replace(world.tools, stance=stance)

        def pauses(told: Machine) -> Machine:
            paused.append(True)
            return told

        link.will(Call.CREATE, pauses)
        await carried_out(world, PROVISION)
        assert world.machine().state is State.IDLE
        assert world.clusters.asked == []
        assert link.asked(Call.CONFIGURE) == []
        assert world.journal.outcomes() == [Outcome.SUCCESS]

    in_time(scenario)
