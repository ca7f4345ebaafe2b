"""How the inventory follows its providers: what is taken in, when, and who is told."""

import asyncio
import dataclasses

import pytest
from typing_extensions import override

from builders import A_FINGERPRINT, a_machine, a_profile, an_assignment
from mainstay.model.assignment import NO_ASSIGNMENT
from mainstay.model.batch import MachineBatch
from mainstay.model.calls import Capabilities, ListRequest
from mainstay.model.errors import Unavailable
from mainstay.model.ids import MachineId
from mainstay.model.metadata import encode
from mainstay.model.resources import Resources
from mainstay.model.state import State
from mainstay.shard.events import Event
from mainstay.shard.facts import Health
from mainstay.shard.lists.intake import IntakeOptions
from mainstay.shard.lists.looked import Looked
from mainstay.shard.reconcile import ReconcileOptions
from reconciling import DELTAS, FULL_ONLY, FakeLink, World, play

M = MachineId("m-1")
KINDS = [pytest.param(FULL_ONLY, id="full"), pytest.param(DELTAS, id="incremental")]
HANGS_S = 10_000.0


def fleet(count: int) -> list[str]:
    return [f"m-{number}" for number in range(1, count + 1)]


def link_of(
    *names: str, source: str = "metal", capabilities: Capabilities | None = DELTAS
) -> FakeLink:
    machines = [a_machine(id=name) for name in names]
    return FakeLink(*machines, source=source, capabilities=capabilities)


class TestLooking:
    def test_the_first_look_takes_in_everything_and_then_the_shard_is_ready(self) -> None:
        async def scenario(w: World) -> None:
            assert not w.ready()
            looked = await w.first()
            assert looked == Looked(lists=2, added=3)  # the second has nothing to say
            assert looked.wrote
            assert w.ready()
            [facts] = w.reconciler.heard.facts()
            assert (facts.machines, facts.health) == (3, Health.ANSWERING)

        play(scenario, link_of(*fleet(3)))

    @pytest.mark.parametrize("kind", KINDS)
    def test_what_changed_is_there_after_the_next_looks(self, kind: Capabilities) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            w.links["metal"].put(a_machine(State.DELETING))
            await w.cycles(2)
            assert w.state() is State.DELETING

        play(scenario, link_of("m-1", capabilities=kind))

    def test_an_incremental_list_is_waited_for_within_patience(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            w.links["metal"].delay_s = 0.2
            w.links["metal"].put(a_machine(price_per_hour=1.0))
            assert (await w.look(patience_s=0.25)).changed == 1

        play(scenario, link_of("m-1"))

    def test_a_look_never_waits_longer_than_that_and_the_next_takes_it_in(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            w.links["metal"].delay_s = 3.0
            w.links["metal"].put(a_machine(price_per_hour=1.0))
            began_s = w.clock.elapsed_s()
            assert await w.look(patience_s=0.25) == Looked()
            assert w.clock.elapsed_s() - began_s == 0.25
            await asyncio.sleep(10)
            assert (await w.look(patience_s=0.0)).changed == 1

        play(scenario, link_of("m-1"))

    def test_whoever_was_waited_for_in_vain_is_waited_for_again_when_it_has_answered(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()

            async def waited_s() -> float:
                began_s = w.clock.elapsed_s()
                await w.look(patience_s=0.25)
                return w.clock.elapsed_s() - began_s

            w.links["metal"].delay_s = 3.0
            assert [await waited_s() for _ in range(3)] == [0.25, 0.0, 0.0]
            await asyncio.sleep(10)
            w.links["metal"].delay_s = 0.125
            assert [await waited_s() for _ in range(3)] == [0.125, 0.125, 0.125]

        play(scenario, link_of("m-1"))

    def test_any_number_may_hurry_a_look_at_the_same_moment(self) -> None:
        """Those who come when its patience is already at an end, too."""

        async def scenario(w: World) -> None:
            await w.first()
            w.links["metal"].delay_s = 3.0
            loop, faults = asyncio.get_running_loop(), list[BaseException]()
            loop.set_exception_handler(lambda _, told: faults.append(told["exception"]))

            def hurry(again: int) -> None:
                w.reconciler.hurry()
                if again:
                    loop.call_soon(hurry, again - 1)

            loop.call_later(0.1, hurry, 5)
            began_s = w.clock.elapsed_s()
            await w.look(patience_s=1.0)
            assert w.clock.elapsed_s() - began_s == pytest.approx(0.1)
            assert faults == []

        play(scenario, link_of("m-1"))

    def test_a_full_list_is_never_waited_for(self) -> None:
        """A wake-up by demand must not wait for one in flight."""

        async def scenario(w: World) -> None:
            await w.first()
            w.links["metal"].delay_s = 60.0
            for _ in range(30):
                began_s = w.clock.elapsed_s()
                await w.look(patience_s=0.25)
                assert w.clock.elapsed_s() == began_s
                await asyncio.sleep(1)

        play(scenario, link_of("m-1", capabilities=FULL_ONLY))

    def test_a_quiet_provider_costs_nothing(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            snapshot = w.inventory.snapshot()
            merges = w.merges()
            looked = await w.cycles(5)
            assert looked == Looked(lists=5)
            assert merges == []
            assert w.inventory.snapshot() is snapshot
            assert w.links["metal"].looked_up == []

        play(scenario, link_of(*fleet(20)))

    def test_an_unchanged_full_list_writes_nothing(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            revision = w.inventory.revision
            looked = await w.cycles(3)
            assert looked == Looked(lists=3, unchanged=60)
            assert not looked.wrote
            assert w.inventory.revision == revision
            assert w.clusters.told == []

        play(scenario, link_of(*fleet(20), capabilities=FULL_ONLY))

    def test_a_report_that_cannot_be_taken_in_is_that_providers_trouble_alone(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            merge = w.inventory.merge

            def refusing(report, **named):  # type: ignore[no-untyped-def]
                if report.source == "metal":
                    raise Unavailable("too many sources")
                return merge(report, **named)

            w.inventory.merge = refusing  # type: ignore[method-assign]
            w.links["metal"].put(a_machine(price_per_hour=1.0))
            w.links["cloud"].put(a_machine(id="c-1", price_per_hour=1.0))
            assert (await w.look()).changed == 1
            assert w.reconciler.heard.unreachable == {"metal"}
            w.inventory.merge = merge  # type: ignore[method-assign]
            assert (await w.cycles(2)).changed == 1

        play(scenario, link_of("m-1"), link_of("c-1", source="cloud"))


class TestSeveralProviders:
    def test_each_has_its_own_machines_and_its_own_cursor(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            w.links["cloud"].put(a_machine(id="c-2"))
            assert (await w.look()).added == 1
            assert w.inventory.source(M) == "metal"
            assert w.inventory.source(MachineId("c-2")) == "cloud"
            assert {f.name: f.machines for f in w.reconciler.heard.facts()} == {
                "metal": 1,
                "cloud": 2,
            }

        play(scenario, link_of("m-1"), link_of("c-1", source="cloud"))

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("hangs", [True, False])
    def test_one_that_fails_or_hangs_delays_nobody_and_loses_nothing(
        self, kind: Capabilities, hangs: bool
    ) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            bad, good = w.links["metal"], w.links["cloud"]
            bad.fails = None if hangs else Unavailable("no route")
            bad.delay_s = HANGS_S if hangs else 0.0
            bad.take_away("m-1")
            for number in range(2, 20):
                began_s = w.clock.elapsed_s()
                good.put(a_machine(id=f"c-{number}"))
                await w.cycles()
                assert w.clock.elapsed_s() - began_s <= 10.25
            await w.cycles()
            assert len(w.inventory) == 20  # its machine is as it was last known
            assert w.reconciler.heard.unreachable == {"metal"}
            assert w.diary.count(Event.PROVIDER_LOST, "metal") == 1
            assert w.diary.count(Event.MACHINE_REMOVED) == 0

        play(
            scenario,
            link_of("m-1", capabilities=kind),
            link_of("c-1", source="cloud", capabilities=kind),
        )

    def test_one_that_comes_back_is_reconciled_where_it_was_left(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            link = w.links["metal"]
            link.fails = Unavailable("no route")
            await w.cycles(5)
            link.take_away("m-1")
            link.put(a_machine(id="m-3"))
            link.fails = None
            await w.cycles(8)
            assert w.inventory.ids() == ["m-2", "m-3"]
            assert w.reconciler.heard.unreachable == frozenset()
            assert w.diary.count(Event.PROVIDER_BACK, "metal") == 1

        play(scenario, link_of("m-1", "m-2"))

    def test_the_shard_is_ready_when_each_was_taken_in_or_has_failed(self) -> None:
        async def scenario(w: World) -> None:
            w.links["cloud"].delay_s = HANGS_S
            w.links["spot"].fails = Unavailable("no route")
            await w.reconciler.wait_first(patience_s=5.0)
            assert w.clock.elapsed_s() == 5.0
            assert (await w.look()).added == 1
            assert not w.ready()  # of the cloud nothing is known yet, not even a failure
            await w.cycles(12)
            assert w.ready()
            w.links["metal"].fails = Unavailable("no route")
            await w.cycles(3)
            assert w.ready()

        play(scenario, link_of("m-1"), link_of(source="cloud"), link_of(source="spot"))

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_machine_that_two_report_stays_with_the_first(self, kind: Capabilities) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            looked = await w.cycles(2)
            assert w.inventory.source(M) == "metal"
            assert w.inventory.machine(M).price_per_hour == 1.0
            assert w.diary.count(Event.MACHINE_REFUSED, "other_provider") >= 1
            w.links["cloud"].put(a_machine(price_per_hour=3.0))
            looked += await w.cycles(2)
            assert w.inventory.source(M) == "metal"
            assert looked.refused == w.diary.count(Event.MACHINE_REFUSED, "other_provider") - 1
            assert looked.skipped == 0
            w.links["cloud"].take_away("m-1")
            await w.cycles(2)
            assert w.has()  # it is not the cloud's to take away

        play(
            scenario,
            FakeLink(a_machine(price_per_hour=1.0), capabilities=kind),
            FakeLink(a_machine(price_per_hour=2.0), source="cloud", capabilities=kind),
        )

    @pytest.mark.parametrize("kind", KINDS)
    def test_when_the_first_gives_it_up_the_second_has_it(self, kind: Capabilities) -> None:
        """An incremental list named it long ago, and will not again."""

        async def scenario(w: World) -> None:
            await w.first()
            w.links["metal"].take_away("m-1")
            await w.cycles(4)
            assert w.inventory.source(M) == "cloud"

        play(
            scenario,
            link_of("m-1", capabilities=kind),
            link_of("m-1", source="cloud", capabilities=kind),
        )

    @pytest.mark.parametrize("kind", KINDS)
    def test_one_that_no_longer_names_it_is_not_asked_for_it_then(self, kind: Capabilities) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            w.links["cloud"].take_away("m-1")
            await w.cycles(2)
            w.links["metal"].take_away("m-1")
            await w.cycles(4)
            assert w.inventory.ids() == ["m-2", "m-3"]
            assert w.links["cloud"].looked_up == []

        play(
            scenario,
            link_of("m-1", "m-2", capabilities=kind),
            link_of("m-1", "m-3", source="cloud", capabilities=kind),
        )

    def test_a_large_list_is_compared_with_the_others_by_hashes(self) -> None:
        async def scenario(w: World) -> None:
            looked = await w.first()
            assert looked.added == 5000
            assert looked.refused == 2
            assert w.inventory.source(MachineId("m-4999")) == "metal"
            assert w.inventory.source(MachineId("m-4998")) == "cloud"

        play(
            scenario,
            link_of("m-4999", "m-5000"),
            link_of(*fleet(5000), source="cloud"),
        )


class TestTakingIn:
    def test_a_new_machine_brings_its_assignment_as_it_was_echoed(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            assert w.inventory.machine(M).assignment == an_assignment()
            assert w.clusters.states("web") == [State.CONFIGURED]

        echo = encode(an_assignment())
        play(scenario, FakeLink(a_machine(State.CONFIGURED, shard_metadata=echo)))

    @pytest.mark.parametrize("kind", KINDS)
    def test_what_we_remember_of_a_machine_wins_over_the_echo(self, kind: Capabilities) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            w.inventory.assign(M, an_assignment(priority=900))
            echo = encode(an_assignment(priority=5))
            w.links["metal"].put(a_machine(State.CONFIGURED, shard_metadata=echo))
            await w.cycles(2)
            assert w.inventory.machine(M).assignment.priority == 900

        play(scenario, FakeLink(a_machine(State.CONFIGURED), capabilities=kind))

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize(
        "drift",
        [
            {"price_per_hour": 9.0},
            {"interruption_probability": 0.5},
            {"profile": a_profile(labels={"rack": "r-9"})},
            {"allocatable": Resources({"cpu": "7"})},
        ],
        ids=lambda drift: next(iter(drift)),
    )
    def test_drift_is_taken_in_though_the_state_is_the_same(
        self, kind: Capabilities, drift: dict[str, object]
    ) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            w.inventory.assign(M, an_assignment())
            held = w.inventory.machine(M)
            w.links["metal"].put(dataclasses.replace(a_machine(State.CONFIGURED), **drift))  # type: ignore[arg-type]
            looked = await w.cycles(2)
            assert looked.changed == 1
            assert w.inventory.machine(M) == dataclasses.replace(held, **drift)  # type: ignore[arg-type]
            assert w.inventory.machine(M).assignment == an_assignment()

        play(scenario, FakeLink(a_machine(State.CONFIGURED), capabilities=kind))

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize(
        ("broken", "reason"),
        [
            ({"price_per_hour": -1.0}, "price"),
            ({"price_per_hour": float("nan")}, "price"),
            ({"interruption_probability": 1.5}, "interruption_probability"),
            ({"host": None}, "host"),
        ],
    )
    def test_a_refused_record_is_counted_by_its_reason_and_counts_as_seen(
        self, kind: Capabilities, broken: dict[str, object], reason: str
    ) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            held = w.inventory.machine(M)
            w.links["metal"].put(dataclasses.replace(held, **broken))  # type: ignore[arg-type]
            looked = await w.cycles(2)
            assert looked.refused >= 1
            assert w.inventory.machine(M) == held
            assert looked.removed == 0
            assert w.diary.count(Event.MACHINE_REFUSED, reason) == looked.refused
            assert w.diary.of(Event.MACHINE_REFUSED)[0]["machine"] == "m-1"

        play(scenario, FakeLink(a_machine(price_per_hour=2.0), capabilities=kind))

    def test_many_refused_records_are_one_line_of_the_journal(self) -> None:
        async def scenario(w: World) -> None:
            looked = await w.first()
            assert looked.refused == 500
            assert w.diary.count(Event.MACHINE_REFUSED, "price") == 500
            assert len(w.diary.of(Event.MACHINE_REFUSED)) == 1

        play(scenario, FakeLink(*[a_machine(id=n, price_per_hour=-1.0) for n in fleet(500)]))


class TestWhoIsTold:
    @pytest.mark.parametrize("kind", KINDS)
    def test_S72_a_drain_that_a_list_finishes_leaves_nothing_and_is_told_to_the_cluster_it_left(
        self, kind: Capabilities
    ) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            w.inventory.assign(M, an_assignment())
            held = a_machine(State.DRAINING, shard_metadata=encode(an_assignment()))
            w.links["metal"].put(held)
            await w.cycles(2)
            assert w.inventory.machine(M).cluster == "web"
            assert w.inventory.machine(M).assignment.fingerprint == A_FINGERPRINT

            w.links["metal"].put(a_machine(State.IDLE))
            await w.cycles(2)
            machine = w.inventory.machine(M)
            assert (machine.state, machine.cluster) == (State.IDLE, None)
            assert machine.assignment == NO_ASSIGNMENT
            assert w.clusters.states("web") == [State.CONFIGURED, State.DRAINING, State.IDLE]
            assert w.ends.successes == [("m-1", "metal")]

        play(scenario, FakeLink(a_machine(State.CONFIGURED), capabilities=kind))

    def test_a_step_that_a_list_finishes_is_a_success_and_a_rollback_is_not(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            link = w.links["metal"]
            link.put(a_machine(State.CONFIGURED), a_machine(State.IDLE, id="m-2"))
            link.put(a_machine(State.IDLE, id="m-3"), a_machine(State.SPECULATIVE, id="m-4"))
            await w.look()
            assert sorted(w.ends.successes) == [
                ("m-1", "metal"), ("m-3", "metal"), ("m-4", "metal"),
            ]  # fmt: skip
            assert w.ends.failures == []
            assert w.configured == ["m-1"]

        play(
            scenario,
            FakeLink(
                a_machine(State.CONFIGURING),
                a_machine(State.CONFIGURING, id="m-2"),
                a_machine(State.CREATING, id="m-3"),
                a_machine(State.DELETING, id="m-4"),
            ),
        )

    def test_a_machine_that_is_reported_failed_is_a_failure(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            assert w.ends.failures == []  # m-2 had failed before we came
            w.links["metal"].put(a_machine(State.FAILED, cluster="web", last_error="no disk"))
            await w.cycles(2)
            assert w.ends.failures == [("m-1", "metal")]
            assert w.diary.count(Event.MACHINE_FAILED, "reported") == 1
            assert w.diary.of(Event.MACHINE_FAILED)[0]["why"] == "no disk"
            assert w.clusters.states("web") == [State.CONFIGURING, State.FAILED]

        play(
            scenario,
            FakeLink(
                a_machine(State.CONFIGURING, cluster="web"), a_machine(State.FAILED, id="m-2")
            ),
        )

    def test_a_machine_that_changes_its_cluster_is_gone_for_the_one_and_serves_the_other(
        self,
    ) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            w.links["metal"].put(a_machine(State.CONFIGURED, cluster="batch"))
            await w.look()
            assert w.clusters.states("web") == [State.CONFIGURED, State.FAILED]
            assert w.clusters.told[1][1].last_error == "gone"
            assert w.clusters.states("batch") == [State.CONFIGURED]

        play(scenario, FakeLink(a_machine(State.CONFIGURED)))

    def test_drift_of_a_price_is_nobodys_business(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            w.clusters.told.clear()
            w.links["metal"].put(a_machine(State.CONFIGURED, price_per_hour=3.0))
            assert (await w.look()).changed == 1
            assert w.clusters.told == []

        play(scenario, FakeLink(a_machine(State.CONFIGURED)))

    def test_of_very_many_new_machines_their_clusters_are_told_all_they_have_instead(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            assert sorted(w.told_all) == ["batch", "web"]
            assert w.clusters.told == []
            w.links["metal"].put(a_machine(State.CONFIGURED, id="m-900"))
            await w.look()
            assert len(w.told_all) == 2
            assert w.clusters.states("web", "m-900") == [State.CONFIGURED]

        web = [a_machine(State.CONFIGURED, id=name) for name in fleet(300)]
        batch = a_machine(State.CONFIGURED, id="m-301", cluster="batch")
        told = ReconcileOptions(intake=IntakeOptions(told_max=300))
        play(scenario, FakeLink(*web, batch, a_machine(id="m-302")), options=told)

    def test_up_to_that_many_are_told_one_by_one(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            assert w.told_all == []
            assert len(w.clusters.told) == 300

        machines = [a_machine(State.CONFIGURED, id=name) for name in fleet(300)]
        told = ReconcileOptions(intake=IntakeOptions(told_max=300))
        play(scenario, FakeLink(*machines), options=told)

    def test_many_changes_are_all_told(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            w.clusters.told.clear()
            w.links["metal"].put(*[a_machine(State.DRAINING, id=name) for name in fleet(1000)])
            assert (await w.look()).changed == 1000
            assert len(w.clusters.told) == 1000

        play(scenario, FakeLink(*[a_machine(State.CONFIGURED, id=name) for name in fleet(1000)]))


class TestInOurHands:
    @pytest.mark.parametrize("kind", KINDS)
    def test_S69_a_list_leaves_a_machine_alone_that_is_in_flight(self, kind: Capabilities) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            w.ledger.take(M)
            w.moves.to(M, State.CONFIGURING, cluster="web")
            w.links["metal"].put(a_machine(State.IDLE, price_per_hour=7.0))
            looked = await w.cycles(3)
            assert w.state() is State.CONFIGURING
            assert looked.skipped >= 1
            assert looked.changed == 0

            w.links["metal"].put(a_machine(State.CONFIGURED))
            w.moves.to(M, State.CONFIGURED, cluster="web")
            w.ledger.give_back(M)
            await w.cycles(3)
            assert w.state() is State.CONFIGURED

        play(scenario, FakeLink(a_machine(State.IDLE), capabilities=kind))

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_list_that_was_asked_for_before_we_touched_a_machine_knows_nothing_of_it(
        self, kind: Capabilities
    ) -> None:
        """Also when our call has ended before the list is taken in."""

        async def scenario(w: World) -> None:
            await w.first()
            link = w.links["metal"]
            link.put(a_machine(State.IDLE, price_per_hour=7.0))
            link.delay_s = 4.0  # it answers what it was when it was asked
            await asyncio.sleep(10)
            await w.look()
            await asyncio.sleep(1)
            w.ledger.take(M)
            w.moves.to(M, State.CONFIGURING, cluster="web")
            link.put(a_machine(State.CONFIGURED))
            w.moves.to(M, State.CONFIGURED, cluster="web")
            w.ledger.give_back(M)
            await asyncio.sleep(5)
            looked = await w.look()
            assert (looked.skipped, looked.retired) == (1, 0)
            assert w.state() is State.CONFIGURED
            await w.cycles(3)
            assert w.state() is State.CONFIGURED
            assert w.diary.count(Event.MACHINE_RETIRED) == 0

        play(scenario, FakeLink(a_machine(State.IDLE), capabilities=kind))

    def test_a_list_that_is_asked_for_afterwards_counts(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            w.ledger.take(M)
            w.moves.to(M, State.CONFIGURING, cluster="web")
            w.ledger.give_back(M)
            await asyncio.sleep(1)
            w.links["metal"].put(a_machine(State.CONFIGURED))
            await w.look()
            assert w.state() is State.CONFIGURED

        play(scenario, FakeLink(a_machine(State.IDLE)))

    def test_what_an_incremental_list_said_meanwhile_is_asked_for_when_the_machine_is_free(
        self,
    ) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            w.ledger.take(M)
            w.moves.to(M, State.CONFIGURING, cluster="web")
            w.links["metal"].put(a_machine(State.CONFIGURED, price_per_hour=7.0))
            await w.cycles(3)
            assert w.reconciler.heard.owed == 1
            assert w.links["metal"].looked_up == []  # still in our hands
            w.ledger.give_back(M)
            await w.cycles(2)
            assert w.inventory.machine(M).price_per_hour == 7.0
            assert w.state() is State.CONFIGURED
            assert w.links["metal"].looked_up == ["m-1"]
            assert w.reconciler.heard.owed == 0

        play(scenario, FakeLink(a_machine(State.IDLE)))

    def test_what_a_later_list_names_is_no_longer_owed(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            w.ledger.take(M)
            w.moves.to(M, State.CONFIGURING, cluster="web")
            w.links["metal"].put(a_machine(State.CONFIGURING))
            await w.look()
            assert w.reconciler.heard.owed == 1
            w.ledger.give_back(M)
            await asyncio.sleep(1)
            w.links["metal"].put(a_machine(State.CONFIGURED))
            await w.look()
            assert w.state() is State.CONFIGURED
            assert w.reconciler.heard.owed == 0
            assert w.links["metal"].looked_up == []

        play(scenario, FakeLink(a_machine(State.IDLE)))

    def test_a_provider_that_is_listed_in_full_anyway_owes_nothing(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            w.ledger.take(M)
            w.moves.to(M, State.CONFIGURING, cluster="web")
            w.links["metal"].put(a_machine(State.CONFIGURED))
            await w.cycles(2)
            w.ledger.give_back(M)
            await w.cycles(2)
            assert w.state() is State.CONFIGURED
            assert w.links["metal"].looked_up == []

        play(scenario, FakeLink(a_machine(State.IDLE), capabilities=FULL_ONLY))

    def test_what_a_full_list_said_meanwhile_is_owed_when_the_next_is_incremental(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            w.ledger.take(M)
            w.moves.to(M, State.CONFIGURING, cluster="web")
            w.links["metal"].put(a_machine(State.CONFIGURED))
            w.feeds["metal"].ask(full=True)
            await w.cycles(2)
            w.ledger.give_back(M)
            await w.cycles(2)
            assert w.state() is State.CONFIGURED
            assert w.links["metal"].looked_up == ["m-1"]

        play(scenario, FakeLink(a_machine(State.IDLE)))

    @pytest.mark.parametrize(("machines", "full"), [(1000, 0), (1001, 1)])
    def test_more_than_a_thousand_are_not_asked_for_one_by_one(
        self, machines: int, full: int
    ) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            link = w.links["metal"]
            names = [MachineId(name) for name in fleet(machines)]
            for name in names:
                w.ledger.take(name)
            link.put(*[a_machine(id=name, price_per_hour=7.0) for name in names])
            await w.look()
            for name in names:
                w.ledger.give_back(name)
            before = len(link.asked)
            await asyncio.sleep(1)
            await w.look()
            await asyncio.sleep(1)
            await w.look()
            await asyncio.sleep(1)
            await w.look()
            prices = {w.inventory.machine(name).price_per_hour for name in names}
            assert prices == {7.0}
            assert sum(not asked.since for asked in link.asked[before:]) >= full
            assert len(link.looked_up) == (0 if full else machines)

        play(scenario, link_of(*fleet(machines)))

    def test_a_machine_that_goes_while_in_our_hands_is_gone_when_they_are_empty(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            w.ledger.take(M)
            w.moves.to(M, State.CONFIGURING, cluster="web")
            w.links["metal"].take_away("m-1")
            assert (await w.cycles(3)).removed == 0
            assert w.has()
            w.moves.fail(M, "configure: no such machine")
            w.ledger.give_back(M)
            assert (await w.cycles(2)).removed == 1
            assert not w.has()
            assert w.diary.count(Event.MACHINE_REMOVED, "unknown") == 1

        play(scenario, FakeLink(a_machine(State.IDLE)))

    def test_a_single_answer_that_is_older_than_the_last_list_is_not_believed(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            link = w.links["metal"]
            w.ledger.take(M)
            link.put(a_machine(State.CONFIGURING))
            await w.look()
            w.ledger.give_back(M)
            await asyncio.sleep(1)
            link.get_delay_s = 5.0  # it answers Configuring, at last
            await w.look()
            await asyncio.sleep(1)
            assert link.looked_up == ["m-1"]
            w.moves.to(M, State.CONFIGURING, cluster="web")
            w.ledger.forget_before(w.clock.elapsed_s() + 1)
            link.put(a_machine(State.CONFIGURED))
            await w.look()
            assert w.state() is State.CONFIGURED
            await w.cycles(2)
            assert w.state() is State.CONFIGURED
            assert w.diary.count(Event.MACHINE_RETIRED) == 0

        play(scenario, FakeLink(a_machine(State.IDLE)))

    def test_a_list_that_is_older_than_a_single_answer_does_not_overrule_it(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            link = w.links["metal"]
            link.delay_s = 8.0
            w.feeds["metal"].ask(full=True)
            await asyncio.sleep(1)  # on its way, and it will say Configuring
            link.put(a_machine(State.CONFIGURED))
            w.feeds["metal"].ask_for([M])
            await asyncio.sleep(1)
            await w.look()
            assert w.state() is State.CONFIGURED
            await asyncio.sleep(8)
            assert (await w.look()).lists == 1
            assert w.state() is State.CONFIGURED
            assert w.diary.count(Event.MACHINE_RETIRED) == 0

        play(scenario, FakeLink(a_machine(State.CONFIGURING)))

    def test_a_single_answer_may_be_older_than_a_list_that_was_asked_for_before_it(self) -> None:
        class SlowToBegin(FakeLink):
            begins_s = 0.0

            @override
            async def listing(self, request: ListRequest) -> MachineBatch:
                await asyncio.sleep(self.begins_s)
                return await super().listing(request)

        async def scenario(w: World) -> None:
            await w.first()
            link = w.links["metal"]
            link.begins_s, link.get_delay_s = 2.0, 1.2
            w.feeds["metal"].ask()
            await asyncio.sleep(1)
            w.feeds["metal"].ask_for([M])  # it answers Configuring, after the list has begun
            await asyncio.sleep(0.5)
            link.put(a_machine(State.CONFIGURED))
            await asyncio.sleep(1)
            await w.look()
            assert w.state() is State.CONFIGURED
            assert w.diary.count(Event.MACHINE_RETIRED) == 0

        play(scenario, SlowToBegin(a_machine(State.CONFIGURING)))

    def test_an_answer_about_one_machine_shows_that_its_provider_answers(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            w.links["metal"].delay_s = 100.0
            w.feeds["metal"].ask(full=True)
            for name in ("m-1", "nobody"):
                await asyncio.sleep(5)
                w.feeds["metal"].ask_for([MachineId(name)])
                await asyncio.sleep(1)
                assert w.reconciler.heard.answered_at_s("metal") == w.clock.elapsed_s() - 1

        play(scenario, FakeLink(a_machine(State.IDLE)))

    def test_a_single_answer_from_before_we_touched_the_machine_is_asked_for_again(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            link = w.links["metal"]
            link.get_delay_s = 3.0
            w.feeds["metal"].ask_for([M])
            await asyncio.sleep(1)  # on its way, and it will say Idle
            w.ledger.take(M)
            w.moves.to(M, State.CONFIGURING, cluster="web")
            w.ledger.give_back(M)
            await asyncio.sleep(3)
            await w.look()
            assert w.state() is State.CONFIGURING

        play(scenario, FakeLink(a_machine(State.IDLE)))

    def test_a_tombstone_of_a_machine_in_our_hands_is_not_lost(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            w.ledger.take(M)
            w.links["metal"].take_away("m-1")
            await w.cycles(2)
            assert w.has()
            assert w.reconciler.heard.owed == 1
            w.ledger.give_back(M)
            await w.cycles(2)
            assert not w.has()

        play(scenario, FakeLink(a_machine(State.IDLE)))

    def test_a_provider_that_does_not_answer_is_not_asked_for_single_machines(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            w.ledger.take(M)
            w.links["metal"].put(a_machine(price_per_hour=3.0))
            await w.look()
            w.links["metal"].fails = Unavailable("no route")
            await w.cycles(1)
            w.ledger.give_back(M)
            await w.cycles(5)
            assert w.links["metal"].looked_up == []
            w.links["metal"].fails = None
            await w.cycles(10)
            assert w.inventory.machine(M).price_per_hour == 3.0

        play(scenario, link_of("m-1"))

    def test_what_no_list_to_come_can_be_held_against_is_forgotten(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            for number in range(50):
                w.ledger.touch(MachineId(f"x-{number}"))
            await w.cycles(3)
            assert w.ledger.touched_since(0.0) == frozenset()

        play(scenario, link_of("m-1"))

    def test_an_answer_that_cannot_be_read_is_counted_and_no_longer_owed(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            w.ledger.take(M)
            w.links["metal"].put(a_machine(price_per_hour=3.0))
            await w.look()
            w.ledger.give_back(M)
            w.links["metal"].put(a_machine(id="m-1", price_per_hour=-3.0))
            w.links["metal"]._there[M] = (0, a_machine(price_per_hour=-3.0))
            await w.cycles(3)
            assert w.diary.count(Event.MACHINE_REFUSED, "price") == 1
            assert w.reconciler.heard.owed == 0

        play(scenario, link_of("m-1"))
