"""Hopeless gangs and the reasons told, each rule for the plain engine and for the real one."""

import pytest

from mainstay.engine.plan import Ceiling, Memory, Unmet
from mainstay.model.resources import Resources
from mainstay.model.state import State
from oracles.awkward import leaving
from oracles.fleets import world_of
from oracles.scenes import (
    CONFIGURED,
    CONFIGURING,
    CREATING,
    DRAINING,
    GPU,
    IDLE,
    PRE,
    SPECULATIVE,
    B,
    Decide,
    X,
    Y,
    all_of,
    ceilings,
    done,
    failed,
    gang,
    held,
    machine,
    need,
    reasons,
    several,
    unresolved,
)


class TestHopelessGang:
    def test_a_gang_that_no_domain_could_ever_hold_takes_nothing_and_tells_its_ceiling(
        self, decide_like: Decide
    ) -> None:
        fleet = [*several("a b", zone="za"), *several("c d e", zone="zb")]

        plan = decide_like(world_of(fleet, [gang(40)]))

        (row,) = plan.unsatisfied
        assert (done(plan), plan.claimed_ids()) == ([], [])
        assert (row.domain, row.satisfiable, row.parked) == (None, False, True)
        assert (row.reason, row.ceiling) == (Unmet.IMPOSSIBLE, Ceiling(("zb",), {GPU: 24}))

    @pytest.mark.parametrize("age", [0, 7, 8, 31, 32])
    def test_it_counts_as_parked_whatever_its_age_and_grows_older(
        self, decide_like: Decide, age: int
    ) -> None:
        wanted = gang(40)
        memory = Memory({wanted.ref: age}, {})

        plan = decide_like(world_of(several("a b"), [wanted], memory=memory))

        assert [row.parked for row in plan.unsatisfied] == [True]
        assert plan.memory.gang_ages == {wanted.ref: age + 1}

    @pytest.mark.parametrize("state", [State(n) for n in range(1, len(State))])
    def test_machines_in_every_state_but_failed_are_hope(
        self, decide_like: Decide, state: State
    ) -> None:
        """Whoever's they are."""
        broken = state is State.FAILED
        other = failed(machine("b")) if broken else machine("b", state, cluster=Y)
        fleet = [machine("a", CONFIGURED), other]

        plan = decide_like(world_of(fleet, [gang(16, priority=-1)], [X]))

        assert (Unmet.IMPOSSIBLE in reasons(plan)) == broken

    def test_what_others_have_is_hope(self, decide_like: Decide) -> None:
        first, second = need(16, priority=20), gang(24)

        plan = decide_like(world_of(several("a b c"), [first, second]))

        assert done(plan) == all_of(B, "a b")
        assert (reasons(plan), ceilings(plan)) == ([Unmet.TOPOLOGY], [None])

    def test_a_machine_too_small_for_a_unit_is_no_hope(self, decide_like: Decide) -> None:
        halves = several("x y", has=Resources({GPU: "4"}))

        plan = decide_like(world_of([machine("a"), *halves], [gang(16)]))

        assert ceilings(plan) == [Ceiling(("zone-a",), {GPU: 8})]

    def test_it_keeps_the_machines_it_has(self, decide_like: Decide) -> None:
        wanted = gang(40, group="g")
        own = [*several("a b", CONFIGURED, zone="za", ref=wanted.ref),
               machine("c", CONFIGURED, zone="zb", ref=wanted.ref)]  # fmt: skip

        plan = decide_like(world_of([*own, machine("i", zone="za")], [wanted]))

        assert (done(plan), plan.claimed_ids()) == ([], ["a", "b", "c"])
        assert [row.deficit for row in plan.unsatisfied] == [{GPU: 24}]
        assert reasons(plan) == [Unmet.IMPOSSIBLE]

    def test_it_drains_nobody(self, decide_like: Decide) -> None:
        fleet = [machine("a", CONFIGURED), *several("v w", CONFIGURED, cluster=Y)]

        plan = decide_like(world_of(fleet, [gang(40, priority=1_000)], [X]))

        assert (done(plan), plan.claimed_ids()) == ([], ["a"])

    def test_what_it_does_not_take_is_free_for_others(self, decide_like: Decide) -> None:
        """Nothing is spoken for either."""
        needs = [gang(40), gang(16, group="g")]

        plan = decide_like(world_of(several("a b c"), needs))

        assert [(action.machine, action.need) for action in plan.actions] == [
            ("a", needs[1].ref), ("b", needs[1].ref),
        ]  # fmt: skip

    def test_the_verdict_falls_when_supply_changes(self, decide_like: Decide) -> None:
        wanted = gang(40)
        before = decide_like(world_of(several("a b c d"), [wanted]))

        after = decide_like(world_of(several("a b c d e"), [wanted], memory=before.memory))

        assert reasons(before) == [Unmet.IMPOSSIBLE]
        assert (done(after), after.unsatisfied) == (all_of(B, "a b c d e"), ())

    @pytest.mark.parametrize(
        ("fleet", "ceiling"),
        [
            ([("za", "1", "90"), ("zb", "6", "3")], "zb"),  # no dimension counts more than D
            ([("za", "6", "2"), ("zb", "3", "1"), ("zb", "3", "1")], "zb"),  # more machines
            ([("zb", "6", "2"), ("za", "6", "2")], "za"),  # the smallest name
        ],
    )
    def test_the_ceiling_is_the_most_covered_then_the_most_machines_then_the_first_name(
        self, decide_like: Decide, fleet: list[tuple[str, str, str]], ceiling: str
    ) -> None:
        machines = [
            machine(f"m-{number}", zone=zone, has=Resources({"p": p, "q": q}))
            for number, (zone, p, q) in enumerate(fleet)
        ]

        plan = decide_like(world_of(machines, [gang(0, wants={"p": 12, "q": 4}, unit={})]))

        assert [found and found.domain for found in ceilings(plan)] == [(ceiling,)]

    def test_the_ceiling_tells_all_that_the_machines_provide(self, decide_like: Decide) -> None:
        has = Resources({GPU: "8", "cpu": "4"})

        plan = decide_like(world_of(several("a b", DRAINING, has=has), [gang(24)]))

        assert ceilings(plan) == [Ceiling(("zone-a",), {GPU: 16, "cpu": 8_000})]

    def test_without_a_machine_that_fits_there_is_no_ceiling(self, decide_like: Decide) -> None:
        plan = decide_like(world_of([failed(machine("a"))], [gang(16)]))

        assert (reasons(plan), ceilings(plan)) == ([Unmet.IMPOSSIBLE], [None])

    def test_a_gang_that_one_machine_holds_is_none(self, decide_like: Decide) -> None:
        """It has become a plain row."""
        plan = decide_like(world_of([machine("a", CONFIGURED)], [gang(8, group="g"), gang(8)]))

        assert [row.deficit for row in plan.unsatisfied] == [{GPU: 8}]
        assert ceilings(plan) == [None]

    def test_the_quota_makes_no_gang_hopeless(self, decide_like: Decide) -> None:
        plan = decide_like(world_of(several("a b"), [gang(16)], quota=held(x=0)))

        assert (reasons(plan), ceilings(plan)) == ([Unmet.QUOTA], [None])


class TestReason:
    def test_phase_two_found_all_of_it(self, decide_like: Decide) -> None:
        fleet = several("v w", CONFIGURED, cluster=Y)

        plan = decide_like(world_of(fleet, [need(16)], [X]))

        assert (unresolved(plan), reasons(plan)) == ([{}], [Unmet.WAITING])

    def test_waiting_goes_before_quota(self, decide_like: Decide) -> None:
        """The slot is not allowed, the victim is."""
        fleet = [machine("s", SPECULATIVE), machine("v", CONFIGURED, cluster=Y)]

        plan = decide_like(world_of(fleet, [need()], [X], quota=held({("sim", ""): 0})))

        assert (done(plan), reasons(plan)) == ([(PRE, "v")], [Unmet.WAITING])

    def test_quota_goes_before_topology(self, decide_like: Decide) -> None:
        """No domain is enough, and the one it looked into is beyond the quota."""
        plan = decide_like(
            world_of([*several("a b"), *leaving({GPU: 24})], [gang(24)], quota=held(x=0))
        )

        assert [row.satisfiable for row in plan.unsatisfied] == [False]
        assert reasons(plan) == [Unmet.QUOTA]

    @pytest.mark.parametrize("age", [0, 8])
    def test_a_gang_without_a_domain_that_is_enough(self, decide_like: Decide, age: int) -> None:
        wanted = gang(24)
        fleet = [*several("a b"), *leaving({GPU: 24})]

        plan = decide_like(world_of(fleet, [wanted], memory=Memory({wanted.ref: age}, {})))

        assert [row.parked for row in plan.unsatisfied] == [age == 8]
        assert reasons(plan) == [Unmet.TOPOLOGY]

    def test_a_gang_without_a_domain(self, decide_like: Decide) -> None:
        plan = decide_like(world_of(several("v w", CONFIGURED, cluster=Y), [gang(16)], [X]))

        assert [row.domain for row in plan.unsatisfied] == [None]
        assert reasons(plan) == [Unmet.TOPOLOGY]

    def test_a_parked_gang_whose_own_are_enough_but_for_others(self, decide_like: Decide) -> None:
        """Topology, although the machines that fit serve others."""
        wanted, hog = gang(16), need(16, priority=20)
        memory = Memory({wanted.ref: 8}, {})

        plan = decide_like(world_of(several("a b"), [wanted, hog], memory=memory))

        assert reasons(plan) == [Unmet.TOPOLOGY]

    @pytest.mark.parametrize(
        ("state", "reason"),
        [
            (IDLE, Unmet.STARVED), (SPECULATIVE, Unmet.STARVED), (CONFIGURED, Unmet.STARVED),
            (CREATING, Unmet.NO_SUPPLY), (CONFIGURING, Unmet.NO_SUPPLY),
            (DRAINING, Unmet.NO_SUPPLY), (State.DELETING, Unmet.NO_SUPPLY),
            (State.FAILED, Unmet.NO_SUPPLY),
        ],
    )  # fmt: skip
    def test_there_is_supply_while_an_idle_a_slot_or_a_configured_one_fits_claimed_or_not(
        self, decide_like: Decide, state: State, reason: Unmet
    ) -> None:
        first, second = need(cluster=Y, priority=20), need()
        made = machine("a", IDLE if state is State.FAILED else state, cluster=Y, ref=first.ref
                       if state is CREATING else None)  # fmt: skip

        plan = decide_like(
            world_of([failed(made) if state is State.FAILED else made], [first, second], [])
        )

        assert plan.unsatisfied[-1].need == second
        assert plan.unsatisfied[-1].reason is reason

    def test_a_machine_too_small_for_a_unit_is_no_supply(self, decide_like: Decide) -> None:
        plan = decide_like(world_of(several("a b", has=Resources({GPU: "4"})), [need()]))

        assert reasons(plan) == [Unmet.NO_SUPPLY]

    @pytest.mark.parametrize("heard", [[X], [X, Y]])
    def test_phase_two_took_some(self, decide_like: Decide, heard: list[str]) -> None:
        """Excess or victims."""
        plan = decide_like(world_of([machine("v", CONFIGURED, cluster=Y)], [need(16)], heard))

        assert unresolved(plan) == [{GPU: 8}]
        assert reasons(plan) == [Unmet.PREEMPTION_EXHAUSTED]

    def test_what_fits_serves_others(self, decide_like: Decide) -> None:
        """An acquisition alone does not change that."""
        needs = [need(8, Y, priority=20), need(16)]

        plan = decide_like(world_of(several("a b"), needs))

        assert done(plan) == all_of(B, "a b")
        assert reasons(plan) == [Unmet.STARVED]

    def test_a_satisfiable_gang_that_another_beat_to_it_is_starved(
        self, decide_like: Decide
    ) -> None:
        """Both gangs see the same machines as enough; the second finds them taken."""
        first = need(24, Y, interruption=5)

        plan = decide_like(world_of(several("a b c"), [first, gang(24)]))

        assert [row.satisfiable for row in plan.unsatisfied] == [True]
        assert reasons(plan) == [Unmet.STARVED]
