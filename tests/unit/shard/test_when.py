"""When a need is served, a machine is there, a cluster has all: from facts alone."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest

from builders import a_machine, a_need, a_need_profile, a_profile, an_assignment
from mainstay.engine.barred import Barred, Offer
from mainstay.engine.decide import decide
from mainstay.engine.explain import examine_need, explain_machine
from mainstay.engine.plan import Demand, Memory, Plan
from mainstay.engine.policy import Policy
from mainstay.inventory.inventory import Inventory
from mainstay.model.ids import ClusterId, MachineId
from mainstay.model.machine import Machine
from mainstay.model.need import Need, Operator, Requirement
from mainstay.model.profile import INSTANCE_TYPE_KEY, CapacityType
from mainstay.model.questions import Expected, When
from mainstay.model.state import State
from mainstay.shard.answers.standing import standing_expected
from mainstay.shard.answers.ways import Part
from mainstay.shard.answers.when import (
    Outlook,
    cluster_expected,
    combined,
    expected_sentence,
    need_expected,
)
from mainstay.shard.controls import Control, ControlKind
from mainstay.shard.latency import Kind, Measured, Step
from mainstay.shard.restrictions import Stance

WEB: Final = ClusterId("web")
LIKE_IT: Final = Kind("cloud", "m5.2xlarge")
NOW_S: Final = 1_000.0
RACK: Final = "topology.bigfleet/rack"

TOOK: Final[Mapping[tuple[Kind, Step], tuple[float, ...]]] = {
    (LIKE_IT, Step.CREATE): (40.0, 60.0, 50.0),
    (LIKE_IT, Step.CONFIGURE): (20.0,),
    (LIKE_IT, Step.DRAIN): (30.0,),
    (LIKE_IT, Step.DELETE): (7.0,),
}


def planned(machines: Iterable[Machine], *needs: Need, **given: Any) -> Plan:
    inventory = Inventory()
    for machine in machines:
        inventory.add(machine, now=NOW_S - 5, source="cloud")
    demand = Demand(needs, frozenset({WEB}), **given)
    return decide(inventory.snapshot(), demand, Memory.empty(), Policy(), NOW_S)


def outlook(plan: Plan, age_s: float = 0.0, **given: Any) -> Outlook:
    """Web is connected, steps took what they took, and what is on its way is so old."""
    rows = np.flatnonzero(plan.snapshot.state)
    measured = Measured(given.pop("took", TOOK), rows, np.full(len(rows), 100.0), 100.0 + age_s)
    parts = {"now_s": NOW_S, "steady_s": NOW_S, "connected": frozenset({WEB}), "measured": measured}
    return Outlook(**{**parts, **given})


def expected(plan: Plan, **given: Any) -> Expected:
    return need_expected(plan, examine_need(plan, 0, relax=False), outlook(plan, **given))


def on_its_way(need: Need, state: State = State.CREATING) -> Machine:
    meant = an_assignment(
        fingerprint=need.profile.fingerprint, cluster=WEB, priority=None,
        interruption_penalty_dollars=None, reclamation_penalty_dollars=None,
    )  # fmt: skip
    return replace(a_machine(state), assignment=meant)


def paused(**given: Any) -> Control:
    parts = {"kind": ControlKind.PAUSE, "reason": "a look", "by": "ada", "set_at_s": NOW_S,
             "expires_at_s": NOW_S + 90}  # fmt: skip
    return Control(**{**parts, **given})


class TestAfterAStart:
    def test_nothing_is_bought_before_those_that_were_listed_before_are_listed_again(self) -> None:
        plan = planned([a_machine(State.SPECULATIVE)], a_need())
        told = expected(plan, unlisted="the list of cloud is awaited")

        assert told.when is When.NOT_BEFORE
        assert "the list of cloud is awaited" in told.because


class TestNeed:
    def test_one_that_has_all_it_asks_for_is_served_now(self) -> None:
        plan = planned([a_machine(State.CONFIGURED)], a_need())

        assert expected(plan).when is When.NOW

    def test_a_slot_that_is_bought_takes_what_making_and_joining_took(self) -> None:
        told = expected(planned([a_machine(State.SPECULATIVE)], a_need()))

        assert (told.when, told.seconds) == (When.ABOUT, 50.0 + 20.0)
        assert told.because == ("1 machine is to be created: 70 s, as the last ones took",)

    def test_an_idle_one_only_has_to_join(self) -> None:
        told = expected(planned([a_machine(State.IDLE)], a_need()))

        assert (told.when, told.seconds) == (When.ABOUT, 20.0)

    @pytest.mark.parametrize(
        ("age_s", "left_s"), [(0, 50 + 20), (10, 40 + 20), (45, 10 + 20), (59, 1 + 20)]
    )
    def test_one_on_its_way_has_the_rest_of_those_that_took_longer(
        self, age_s: float, left_s: float
    ) -> None:
        need = a_need()
        told = expected(planned([on_its_way(need)], need), age_s=age_s)

        assert (told.when, told.seconds) == (When.ABOUT, left_s)

    def test_one_that_takes_longer_than_any_before_is_not_guessed(self) -> None:
        need = a_need()
        told = expected(planned([on_its_way(need)], need), age_s=61)

        assert told.when is When.UNKNOWN
        assert "takes 61 s already" in told.because[0]

    def test_the_last_machine_counts(self) -> None:
        machines = [a_machine(State.IDLE), a_machine(State.SPECULATIVE, id="m-2")]
        told = expected(planned(machines, a_need(aggregate={"cpu": 16_000})))

        assert (told.when, told.seconds, len(told.because)) == (When.ABOUT, 70.0, 2)

    def test_what_was_never_measured_is_said(self) -> None:
        told = expected(planned([a_machine(State.SPECULATIVE)], a_need()), took={})

        assert told.when is When.UNKNOWN
        assert "create of m5.2xlarge at cloud was not measured" in told.because[0]

    @pytest.mark.parametrize("other", [Kind("cloud", "p4d"), Kind("metal", "p4d")])
    def test_others_tell_where_nothing_like_it_was_measured(self, other: Kind) -> None:
        took = {(other, Step.CONFIGURE): (33.0,)}
        told = expected(planned([a_machine(State.IDLE)], a_need()), took=took)

        assert (told.when, told.seconds) == (When.ABOUT, 33.0)

    def test_the_same_provider_tells_before_others(self) -> None:
        took = {(Kind("metal", "p4d"), Step.CONFIGURE): (99.0,),
                (Kind("cloud", "p4d"), Step.CONFIGURE): (33.0,)}  # fmt: skip
        told = expected(planned([a_machine(State.IDLE)], a_need()), took=took)

        assert told.seconds == 33.0

    def test_what_is_taken_from_others_has_to_leave_first(self) -> None:
        victim = a_machine(State.CONFIGURED, assignment=an_assignment(priority=1), cluster="low")
        urgent = a_need(profile=a_need_profile(priority=500))
        plan = planned([victim], urgent)

        assert expected(plan).seconds == 30.0 + 20.0
        grace_s = plan.actions[0].grace_s
        unmeasured = {key: took for key, took in TOOK.items() if key[1] is not Step.DRAIN}
        assert expected(plan, took=unmeasured).seconds == grace_s + 20.0

    def test_nothing_comes_by_itself_for_one_that_misses_something(self) -> None:
        told = expected(planned([], a_need()))

        assert told.when is When.NEVER
        assert "no supply" in told.because[0]

    def test_what_is_made_for_nobody_will_do_once_it_is_there(self) -> None:
        told = expected(planned([a_machine(State.CREATING)], a_need()))

        assert (told.when, told.seconds) == (When.ABOUT, 50.0 + 20.0)

    def test_too_little_on_the_way_is_never_enough(self) -> None:
        told = expected(planned([a_machine(State.CREATING)], a_need(aggregate={"cpu": 9_000})))

        assert told.when is When.NEVER

    def test_a_gang_that_no_domain_holds_is_never_served(self) -> None:
        same = a_need_profile(requirements=(Requirement(RACK, Operator.SAME),))
        machine = a_machine(profile=a_profile(labels={RACK: "r1"}))
        plan = planned([machine], a_need(profile=same, aggregate={"cpu": 90_000}, group="g"))

        assert expected(plan).when is When.NEVER


class TestHolds:
    def test_a_pause_ends_first(self) -> None:
        told = expected(planned([a_machine()], a_need()), controls=(paused(),))

        assert (told.when, told.seconds) == (When.NOT_BEFORE, 90.0)
        assert told.because[0] == "pause by ada ends in 90 s (a look)"

    def test_the_pause_of_another_cluster_does_not(self) -> None:
        controls = (paused(cluster=ClusterId("other")),)

        assert expected(planned([a_machine()], a_need()), controls=controls).when is When.ABOUT

    def test_a_limit_is_no_pause(self) -> None:
        controls = (paused(kind=ControlKind.ACTION_LIMIT, value=3.0),)

        assert expected(planned([a_machine()], a_need()), controls=controls).when is When.ABOUT

    @pytest.mark.parametrize(
        ("stance", "says"),
        [
            (Stance.PAUSE, "this shard is paused by its configuration (actuation_paused)"),
            (Stance.SHADOW, "only tells what it would do by its configuration (dry_run)"),
        ],
    )
    def test_what_the_configuration_holds_back_never_comes_by_itself(
        self, stance: Stance, says: str
    ) -> None:
        told = expected(planned([a_machine()], a_need()), stance=stance, controls=(paused(),))

        assert (told.when, len(told.because)) == (When.NEVER, 1)
        assert says in told.because[0]

    @pytest.mark.parametrize("state", [State.IDLE, State.CREATING])
    def test_a_machine_joins_through_no_provider_that_refuses_the_shard(self, state: State) -> None:
        need = a_need()
        machine = a_machine() if state is State.IDLE else on_its_way(need)
        told = expected(planned([machine], need), stopped={"cloud": "too old"})

        assert told.when is When.NEVER
        assert told.because[0].endswith("until the shard is started again: too old")

    def test_what_a_provider_is_busy_with_goes_on_although_it_refuses_the_shard(self) -> None:
        need = a_need()
        joining = replace(on_its_way(need, State.CONFIGURING), cluster=WEB)
        plan = planned([joining], need)

        assert expected(plan, stopped={"cloud": "too old"}).when is When.ABOUT

    def test_what_only_such_a_provider_has_is_not_waited_for(self) -> None:
        plan = planned(
            [a_machine(State.SPECULATIVE)], a_need(), barred=Barred(sources=frozenset({"cloud"}))
        )

        assert expected(plan, stopped={"cloud": "too old"}).when is When.NEVER

    def test_what_another_provider_has_too_is_waited_for(self) -> None:
        """One refuses the shard for good, the other only does not answer now."""
        inventory = Inventory()
        for source in ("cloud", "metal"):
            inventory.add(a_machine(id=f"m-{source}"), now=NOW_S - 5, source=source)
        barred = Barred(sources=frozenset({"cloud", "metal"}))
        demand = Demand((a_need(),), frozenset({WEB}), barred=barred)
        plan = decide(inventory.snapshot(), demand, Memory.empty(), Policy(), NOW_S)

        assert expected(plan, stopped={"cloud": "too old"}).when is When.UNKNOWN
        both = {"cloud": "too old", "metal": "somebody else's"}
        told = expected(plan, stopped=both)
        assert (told.when, len(told.because)) == (When.NEVER, 2)

    def test_a_disk_that_refuses_who_was_listed_is_named(self) -> None:
        plan = planned(
            [a_machine(State.SPECULATIVE)], a_need(), barred=Barred(sources=frozenset({"cloud"}))
        )

        told = expected(plan, refused=frozenset({"cloud"}))

        why = "that provider cloud was listed is not on disk yet: the disk refuses it"
        assert (told.when, told.because) == (When.UNKNOWN, (why,))
        assert "until its provider answers again" in expected(plan).because[0]

    def test_what_is_begun_goes_on_while_a_shard_is_paused(self) -> None:
        need = a_need()
        told = expected(planned([on_its_way(need)], need), controls=(paused(),))

        assert told.when is When.ABOUT

    def test_a_cluster_that_did_not_answer_is_left_alone_first(self) -> None:
        told = expected(planned([a_machine()], a_need()), backed_off_s={WEB: 12.0})

        assert (told.when, told.seconds) == (When.NOT_BEFORE, 12.0)

    def test_nothing_joins_a_cluster_that_is_not_there(self) -> None:
        told = expected(planned([a_machine()], a_need()), connected=frozenset())

        assert told.when is When.NEVER
        assert "cluster web is not connected" in told.because[0]

    def test_a_shard_that_does_not_act_never_will(self) -> None:
        told = expected(planned([a_machine()], a_need()), not_acting="fenced by epoch 9")

        assert (told.when, told.because) == (
            When.NEVER, ("this shard does not act: fenced by epoch 9",)
        )  # fmt: skip

    @pytest.mark.parametrize(
        ("barred", "place"),
        [
            (Barred(values=frozenset({(INSTANCE_TYPE_KEY, "m5.2xlarge")})),
             (INSTANCE_TYPE_KEY, "m5.2xlarge")),
            (Barred(offers=frozenset({
                Offer("cloud", "m5.2xlarge", "zone-a", CapacityType.ON_DEMAND)})),
             Offer("cloud", "m5.2xlarge", "zone-a", CapacityType.ON_DEMAND)),
        ],
    )  # fmt: skip
    def test_what_is_not_bought_now_is_not_had_before_that_ends(
        self, barred: Barred, place: Any
    ) -> None:
        plan = planned([a_machine(State.SPECULATIVE)], a_need(), barred=barred)
        told = expected(plan, barred_s={place: 45.0, (INSTANCE_TYPE_KEY, "p4d"): 300.0})

        assert (told.when, told.seconds) == (When.NOT_BEFORE, 45.0)

    def test_nobody_knows_when_a_provider_answers_again(self) -> None:
        barred = Barred(sources=frozenset({"cloud"}))
        told = expected(planned([a_machine(State.SPECULATIVE)], a_need(), barred=barred))

        assert told.when is When.UNKNOWN


class TestMachine:
    def told(self, plan: Plan, **given: Any) -> Expected:
        report = explain_machine(plan, MachineId("m-1"))
        return standing_expected(plan, report, outlook(plan, **given))

    def test_one_that_serves_does_so_now(self) -> None:
        assert self.told(planned([a_machine(State.CONFIGURED)], a_need())).when is When.NOW

    def test_one_to_be_joined_takes_what_joining_took(self) -> None:
        told = self.told(planned([a_machine()], a_need()))

        assert (told.when, told.seconds) == (When.ABOUT, 20.0)

    def test_one_that_nobody_needs_is_drained_in_the_time_that_takes(self) -> None:
        told = self.told(planned([a_machine(State.CONFIGURED)]))

        assert (told.when, told.seconds) == (When.ABOUT, 30.0)

    def test_an_idle_one_is_kept_for_as_long_as_it_is_held(self) -> None:
        told = self.told(planned([a_machine()]))

        assert (told.when, told.seconds) == (When.NOT_BEFORE, Policy().hold_on_demand_s - 5)

    def test_one_that_has_failed_stays_so(self) -> None:
        assert self.told(planned([a_machine(State.FAILED)])).when is When.NEVER

    def test_a_slot_waits_for_nothing(self) -> None:
        assert self.told(planned([a_machine(State.SPECULATIVE)])).when is When.NOW

    def test_one_on_its_way_to_nobody_ends_its_step(self) -> None:
        told = self.told(planned([a_machine(State.DELETING)]), age_s=3)

        assert (told.when, told.seconds) == (When.ABOUT, 4.0)


class TestCluster:
    def test_all_of_it_is_as_late_as_its_last_machine(self) -> None:
        machines = [a_machine(State.IDLE), a_machine(State.SPECULATIVE, id="m-2")]
        plan = planned(machines, a_need(aggregate={"cpu": 16_000}))

        told = cluster_expected(plan, WEB, outlook(plan))

        assert (told.when, told.seconds) == (When.ABOUT, 70.0)

    def test_one_that_is_served_is_so_now(self) -> None:
        plan = planned([a_machine(State.CONFIGURED)], a_need())

        assert cluster_expected(plan, WEB, outlook(plan)).when is When.NOW

    def test_a_need_that_misses_something_is_named(self) -> None:
        plan = planned([], a_need())
        told = cluster_expected(plan, WEB, outlook(plan))

        assert told.when is When.NEVER
        assert told.because[0].startswith("1 need misses something")

    def test_the_machines_of_others_do_not_count(self) -> None:
        other = ClusterId("other")
        plan = planned([a_machine()], a_need(cluster=other))

        assert cluster_expected(plan, WEB, outlook(plan)).when is When.NOW


def test_what_ends_first_counts_before_what_is_not_known() -> None:
    parts = [Part(None, "nobody knows"), Part(5.0, "soon")]

    assert combined(parts, []).when is When.UNKNOWN
    assert combined(parts[1:], []).seconds == 5.0


@pytest.mark.parametrize(
    ("told", "says"),
    [
        (Expected(when=When.NOW, because=("it serves",)), "When: now, because it serves."),
        (Expected(when=When.ABOUT, seconds=70.4, because=("a", "b")),
         "When: in about 70 s, because a; b."),
        (Expected(when=When.NOT_BEFORE, seconds=1_200), "When: not before 20 min from now."),
        (Expected(when=When.NEVER), "When: never as things are."),
        (Expected(when=When.UNKNOWN), "When: not known."),
        (Expected(), ""),
    ],
)  # fmt: skip
def test_it_is_told_in_one_sentence(told: Expected, says: str) -> None:
    assert expected_sentence(told) == says
