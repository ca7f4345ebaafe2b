"""Machines that go, come back, or stand where no edge leads; whose they are; who will be taken."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from typing_extensions import override

from builders import a_machine, a_profile, an_assignment
from mainstay.model.batch import MachineBatch
from mainstay.model.calls import Capabilities, ListRequest
from mainstay.model.errors import Rejected, Unavailable
from mainstay.model.ids import MachineId
from mainstay.model.metadata import encode
from mainstay.model.profile import ZONE_KEY
from mainstay.model.state import NEXT, TRANSITIONAL, State
from mainstay.shard.events import Event
from mainstay.shard.lists.feeds import FeedOptions
from mainstay.shard.lists.looked import Looked
from reconciling import DELTAS, DELTAS_ONLY, FULL_ONLY, FakeLink, World, in_domains, play

M = MachineId("m-1")
KINDS = [pytest.param(FULL_ONLY, id="full"), pytest.param(DELTAS, id="incremental")]
REAL = [state for state in State if state]
NO_EDGE = [(old, new) for old in REAL for new in REAL if old is not new and new not in NEXT[old]]
UNFINISHED = [(State.FAILED, state) for state in sorted(TRANSITIONAL)]
RETIRED = [edge for edge in NO_EDGE if edge not in UNFINISHED]


def names(count: int, *, start: int = 1) -> list[str]:
    return [f"m-{number:03d}" for number in range(start, start + count)]


def fleet(count: int, capabilities: Capabilities | None = FULL_ONLY) -> FakeLink:
    return FakeLink(*[a_machine(id=name) for name in names(count)], capabilities=capabilities)


class FailsInFull(FakeLink):
    """Some of the lists that are asked for in full do not come."""

    in_vain = 0

    @override
    async def listing(self, request: ListRequest) -> MachineBatch:
        if not request.since and self.in_vain:
            self.in_vain -= 1
            raise Unavailable("on purpose")
        return await super().listing(request)


@contextmanager
def broken_merges(world: World) -> Iterator[None]:
    """Inside the block a defect of ours ends whatever is to be merged."""
    merge = world.inventory.merge

    def broken(*given: object, **named: object) -> None:
        raise ZeroDivisionError

    world.inventory.merge = broken  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        world.inventory.merge = merge  # type: ignore[method-assign]


class TestRemoval:
    @pytest.mark.parametrize(
        ("kind", "why"), [(FULL_ONLY, "absent"), (DELTAS, "tombstone")], ids=["full", "incremental"]
    )
    def test_a_machine_that_its_provider_no_longer_has_is_removed_and_its_cluster_told(
        self, kind: Capabilities, why: str
    ) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            w.links["metal"].take_away("m-1", "m-2")
            looked = await w.cycles(2)
            assert looked.removed == 2
            assert len(w.inventory) == 3
            assert w.diary.count(Event.MACHINE_REMOVED, why) == 2
            assert w.clusters.states("web") == [State.CONFIGURED, State.FAILED]
            assert w.clusters.told[-1][1].last_error == "gone"
            assert w.ends.losses == [("m-1", "metal")]  # the idle one served nobody
            assert w.ends.failures == []

        idle = [a_machine(id=f"m-{number}") for number in range(2, 6)]
        play(scenario, FakeLink(a_machine(State.CONFIGURED), *idle, capabilities=kind))

    def test_only_machines_of_that_provider_are_missing_from_its_list(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            w.links["metal"].take_away("m-1")
            await w.cycles(2)
            assert w.inventory.ids() == ["c-1", "m-2"]

        cloud = FakeLink(a_machine(id="c-1"), source="cloud", capabilities=FULL_ONLY)
        metal = FakeLink(a_machine(), a_machine(id="m-2"), capabilities=FULL_ONLY)
        play(scenario, metal, cloud)

    def test_a_machine_in_flight_is_never_removed_by_a_full_list(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            w.ledger.take(M)
            w.links["metal"].take_away("m-1")
            await w.cycles(3)
            assert w.has()
            w.ledger.give_back(M)
            await w.cycles(2)
            assert not w.has()

        machines = [a_machine(), a_machine(id="m-2")]
        play(scenario, FakeLink(*machines, capabilities=FULL_ONLY))

    @pytest.mark.parametrize("peer", [DELTAS_ONLY, None], ids=["declared", "BigFleet"])
    def test_without_tombstones_it_is_removed_by_the_next_full_list(
        self, peer: Capabilities | None
    ) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            link = w.links["metal"]
            link.take_away("m-1")
            await w.cycles(3)
            assert w.has()
            await w.cycles(3)
            assert not w.has()
            assert {bool(asked.since) for asked in link.asked} == {True, False}

        options = FeedOptions(full_every=5, incremental_from_peers=True)
        machines = [a_machine(), a_machine(id="m-2")]
        play(scenario, FakeLink(*machines, capabilities=peer), feed_options=options)

    def test_a_peer_that_has_lost_our_cursor_takes_nothing_away_until_then(self) -> None:
        """It answers in full and does not say so: what it does not name may still be there."""

        async def scenario(w: World) -> None:
            await w.first()
            link = w.links["metal"]
            link.restart()
            link.hides = {"m-1"}
            await w.look()
            assert w.has()

        options = FeedOptions(incremental_from_peers=True)
        play(scenario, FakeLink(a_machine(), capabilities=None), feed_options=options)

    def test_a_provider_that_has_lost_our_cursor_is_believed_about_what_is_gone(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            w.links["metal"].take_away("m-1")
            w.links["metal"].restart()
            await w.look()
            assert w.inventory.ids() == ["m-2"]

        play(scenario, FakeLink(a_machine(), a_machine(id="m-2")))


class TestHeldLists:
    @pytest.mark.parametrize(("missing", "held"), [(9, 0), (10, 10)])
    def test_a_list_that_misses_a_tenth_of_ten_or_more_is_held(
        self, missing: int, held: int
    ) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            w.links["metal"].hides = set(names(missing))
            await asyncio.sleep(10)
            w.links["metal"].delay_s = 5.0
            looked = await w.look()
            await asyncio.sleep(1)
            looked += await w.look()
            assert looked.held == held
            assert looked.removed == missing - held
            assert w.diary.count(Event.LIST_HELD, "metal") == bool(held)

        play(scenario, fleet(100))

    def test_a_list_that_names_none_of_those_we_know_is_held_whatever_is_in_our_hands(self) -> None:
        """One that is in our hands it could not have named: of the other it misses all there is."""

        async def scenario(w: World) -> None:
            await w.first()
            w.ledger.take(MachineId("m-002"))
            w.links["metal"].hides = set(names(2))
            assert (await w.cycles(1)).held == 1
            w.links["metal"].hides = set()
            await w.cycles(2)
            assert w.inventory.ids() == names(2)

        play(scenario, fleet(2))

    def test_new_machines_do_not_make_up_for_missing_ones(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            w.links["metal"].hides = set(names(10))
            w.links["metal"].put(*[a_machine(id=name) for name in names(50, start=200)])
            assert (await w.cycles(1)).held == 10

        play(scenario, fleet(100))

    def test_its_news_are_taken_in_all_the_same(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            link = w.links["metal"]
            link.hides = set(names(50))
            link.put(a_machine(id="m-100", price_per_hour=7.0), a_machine(id="m-200"))
            looked = await w.cycles(2)
            assert w.diary.count(Event.LIST_HELD) >= 1
            assert (looked.changed, looked.added) == (1, 1)
            assert w.inventory.machine(MachineId("m-100")).price_per_hour == 7.0

        play(scenario, fleet(100))

    def test_what_a_list_that_is_asked_for_later_misses_too_is_removed(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            link = w.links["metal"]
            link.take_away(*names(40))
            await asyncio.sleep(10)
            assert (await w.look()).held == 40
            link.hides = set(names(10, start=91))
            early = await w.cycles(2, every_s=2.0)
            assert (early.removed, early.held >= 40) == (0, True)
            looked = await w.cycles()
            assert (looked.removed, looked.held) == (40, 10)
            link.hides = set()
            await w.cycles(2)
            assert w.inventory.ids() == names(60, start=41)

        play(scenario, fleet(100))

    def test_what_was_missing_once_and_is_back_is_as_it_was(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            w.inventory.assign(M, an_assignment(priority=900))
            w.links["metal"].hides = {"m-1", *names(50)}
            await asyncio.sleep(10)
            await w.look()
            w.links["metal"].hides = set()
            await w.cycles(3)
            assert len(w.inventory) == 51
            assert w.inventory.machine(M).assignment.priority == 900
            assert w.diary.count(Event.MACHINE_REMOVED) == 0
            assert w.ends.losses == []

        link = fleet(50)
        link.put(a_machine(State.CONFIGURED))
        play(scenario, link)

    def test_the_list_that_would_confirm_what_is_missing_is_asked_for_again_if_it_fails(
        self,
    ) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            link = w.links["metal"]
            link.hides = set(names(50))
            link.restart()
            assert (await w.cycles(2)).held == 50
            link.in_vain = 1
            await w.cycles(20)
            assert w.diary.count(Event.LIST_FAILED) == 1
            assert w.inventory.ids() == names(50, start=51)

        play(scenario, FailsInFull(*[a_machine(id=name) for name in names(100)]))

    def test_a_provider_that_restarts_empty_loses_nothing_until_it_has_settled(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            link = w.links["metal"]
            link.restart()
            link.hides = set(names(100))
            assert (await w.cycles(1)).held == 100
            await w.cycles(5)
            assert len(w.inventory) == 100
            await w.cycles(3)
            assert len(w.inventory) == 0

        play(scenario, fleet(100, DELTAS))

    def test_tombstones_are_believed_however_many(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            w.links["metal"].take_away(*names(60))
            assert (await w.look()).removed == 60

        play(scenario, fleet(100, DELTAS))


class TestIllegalEdges:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize(("old", "new"), RETIRED, ids=str)
    def test_where_no_edge_leads_a_record_is_retired_and_admitted_again_as_reported(
        self, kind: Capabilities, old: State, new: State
    ) -> None:
        """Its cluster is told that it is gone: as Creating, Idle or Speculative it would be waited
        for, and nobody would ever say more of it.
        """

        async def scenario(w: World) -> None:
            await w.first()
            before = w.inventory.machine(M)
            w.links["metal"].put(a_machine(new, price_per_hour=4.0))
            looked = await w.cycles(2)
            assert (looked.retired, looked.refused, looked.removed) == (1, 0, 0)
            assert w.inventory.machine(M) == a_machine(new, price_per_hour=4.0)
            assert w.diary.count(Event.MACHINE_RETIRED, "illegal_edge") == 1
            assert w.diary.of(Event.MACHINE_RETIRED)[0]["edge"] == f"{old} -> {new}"
            assert w.diary.count(Event.MACHINE_ADMITTED_AGAIN) == 1
            if before.cluster:
                told, last = w.clusters.told[-1]
                stays = a_machine(new).cluster or new is State.FAILED
                assert told == before.cluster
                assert last.state is (new if stays else State.FAILED)
                assert stays or last.last_error == "gone"

        play(scenario, FakeLink(a_machine(old), capabilities=kind))

    def test_it_loses_what_we_remember_and_gets_what_is_echoed(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            w.inventory.assign(M, an_assignment(priority=900, group="gang"))
            w.moves.to(M, State.CONFIGURED, cluster="web")
            await asyncio.sleep(1)
            w.moves.to(M, State.DRAINING)
            w.moves.fail(M, "drain: no answer")
            await asyncio.sleep(1)
            echo = encode(an_assignment(priority=5, group=None))
            w.links["metal"].put(a_machine(State.CONFIGURED, shard_metadata=echo))
            await w.look()
            held = w.inventory.machine(M).assignment
            assert (held.priority, held.group) == (5, None)

        play(scenario, FakeLink(a_machine(State.CONFIGURING)))

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("alive", [State.IDLE, State.CONFIGURED])
    def test_a_machine_that_we_gave_up_and_that_is_alive_comes_back_by_itself(
        self, kind: Capabilities, alive: State
    ) -> None:
        """Though nothing has changed at its provider since, and no incremental list names it."""

        async def scenario(w: World) -> None:
            await w.first()
            w.ledger.take(M)
            w.moves.to(M, State.CONFIGURING, cluster="web")
            w.links["metal"].put(a_machine(alive))
            await w.look()
            w.moves.fail(M, "configure: no answer")
            w.ledger.give_back(M)
            await w.cycles(3)
            assert w.state() is alive
            assert w.diary.count(Event.MACHINE_RETIRED, "illegal_edge") == 1
            assert w.reconciler.heard.owed == 0

        play(scenario, FakeLink(a_machine(State.IDLE), capabilities=kind))

    @pytest.mark.parametrize("kind", KINDS)
    def test_one_that_we_gave_up_comes_back_when_its_step_has_ended_and_not_before(
        self, kind: Capabilities
    ) -> None:
        """Or one that never ends would be given up only to count as on its way again."""

        async def scenario(w: World) -> None:
            await w.first()
            w.ledger.take(M)
            w.moves.to(M, State.CONFIGURING, cluster="web")
            w.links["metal"].put(a_machine(State.CONFIGURING))
            w.moves.fail(M, "configure: not ended within 900 s")
            w.ledger.give_back(M)
            await w.cycles(10)
            assert w.state() is State.FAILED
            assert w.diary.count(Event.MACHINE_RETIRED) == 0
            assert w.diary.count(Event.MACHINE_REFUSED, "illegal_transition") >= 1
            assert w.reconciler.heard.owed == 0
            w.links["metal"].put(a_machine(State.CONFIGURED))
            await w.cycles(2)
            assert w.state() is State.CONFIGURED

        play(scenario, FakeLink(a_machine(State.IDLE), capabilities=kind))

    @pytest.mark.parametrize(("old", "new"), UNFINISHED, ids=str)
    def test_no_unfinished_step_brings_a_failed_machine_back(self, old: State, new: State) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            w.links["metal"].put(a_machine(new))
            looked = await w.cycles(2)
            assert (looked.retired, looked.refused) == (0, 1)
            assert w.state() is old

        play(scenario, FakeLink(a_machine(old)))

    def test_also_one_whose_provider_never_heard_of_it(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            await w.cycles(2)
            w.ledger.take(M)
            w.moves.to(M, State.CONFIGURING, cluster="web")
            w.moves.fail(M, "configure: no route")
            w.ledger.give_back(M)
            await w.cycles(3)
            assert w.state() is State.IDLE

        play(scenario, FakeLink(a_machine(State.IDLE)))

    def test_one_that_is_failed_there_too_stays_failed_and_is_asked_for_once(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            w.ledger.take(M)
            w.moves.to(M, State.CONFIGURING, cluster="web")
            w.links["metal"].put(a_machine(State.FAILED))
            w.moves.fail(M, "configure: refused")
            w.ledger.give_back(M)
            await w.cycles(5)
            assert w.state() is State.FAILED
            assert len(w.links["metal"].looked_up) <= 1
            assert w.diary.count(Event.MACHINE_RETIRED) == 0

        play(scenario, FakeLink(a_machine(State.IDLE)))

    def test_while_its_provider_does_not_answer_it_stays_owed(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            w.ledger.take(M)
            w.moves.to(M, State.CONFIGURING, cluster="web")
            w.moves.fail(M, "configure: no route")
            w.ledger.give_back(M)
            w.links["metal"].get_fails = Unavailable("no route")
            await w.cycles(5)
            assert w.state() is State.FAILED
            assert w.reconciler.heard.owed == 1
            w.links["metal"].get_fails = None
            await w.cycles(2)
            assert w.state() is State.IDLE

        play(scenario, FakeLink(a_machine(State.IDLE)))

    @pytest.mark.parametrize("kind", KINDS)
    def test_one_that_is_given_up_again_and_again_comes_back_ever_later(
        self, kind: Capabilities
    ) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            gone_s = []
            for _ in range(4):
                w.ledger.take(M)
                w.moves.to(M, State.CONFIGURING, cluster="web")
                w.moves.fail(M, "configure: refused")
                w.ledger.give_back(M)
                began_s = w.clock.elapsed_s()
                while w.state() is State.FAILED:
                    await w.cycles(1, every_s=5.0)
                gone_s.append(w.clock.elapsed_s() - began_s)
            assert gone_s[0] <= 15
            assert [round(each / 60) for each in gone_s[1:]] == [1, 2, 4]

        play(scenario, FakeLink(a_machine(State.IDLE), capabilities=kind))

    @pytest.mark.parametrize("now", [State.FAILED, State.SPECULATIVE, State.IDLE], ids=str)
    def test_a_serving_machine_that_is_taken_from_its_cluster_is_lost_and_no_step_has_failed(
        self, now: State
    ) -> None:
        """A spot host goes from Configured to nothing: the table has no such edge."""

        async def scenario(w: World) -> None:
            await w.first()
            w.links["metal"].put(a_machine(now))
            await w.look()
            assert (w.ends.losses, w.ends.failures) == ([("m-1", "metal")], [])
            assert w.diary.count(Event.MACHINE_FAILED) == (now is State.FAILED)

        play(scenario, FakeLink(a_machine(State.CONFIGURED)))

    def test_what_has_failed_is_told_with_its_diagnosis_also_to_the_cluster_it_left(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            w.links["metal"].put(a_machine(State.FAILED, cluster=None, last_error="burnt"))
            await w.look()
            cluster, last = w.clusters.told[-1]
            assert (cluster, last.state, last.last_error) == ("web", State.FAILED, "burnt")

        play(scenario, FakeLink(a_machine(State.CONFIGURED)))

    def test_an_idle_machine_that_serves_of_its_own_accord_is_none(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            w.links["metal"].put(a_machine(State.CONFIGURED))
            await w.look()
            assert w.ends.losses == w.ends.failures == []
            assert w.clusters.states("web") == [State.CONFIGURED]

        play(scenario, FakeLink(a_machine(State.IDLE)))

    def test_a_machine_of_ours_is_admitted_again_wherever_it_stands(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            w.unassign(ZONE_KEY, "zone-a")
            w.links["metal"].put(a_machine(State.IDLE))
            await w.cycles(2)
            assert w.state() is State.IDLE

        zone_a = in_domains((ZONE_KEY, "zone-a"))
        play(scenario, FakeLink(a_machine(State.CONFIGURED)), holdings=zone_a)


class TestDomains:
    @pytest.mark.parametrize("kind", KINDS)
    def test_machines_outside_the_assigned_domains_are_never_adopted(
        self, kind: Capabilities
    ) -> None:
        async def scenario(w: World) -> None:
            looked = await w.first()
            assert (looked.added, looked.foreign) == (1, 1)
            w.links["metal"].put(a_machine(id="b-2", profile=a_profile(zone="zone-b")))
            await w.cycles(2)
            assert w.inventory.ids() == ["a-1"]
            assert w.diary.count(Event.MACHINE_FOREIGN) >= 2

        play(scenario, two_zones(kind), holdings=in_domains((ZONE_KEY, "zone-a")))

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_domain_that_is_assigned_brings_its_machines(self, kind: Capabilities) -> None:
        """Incremental lists have named them before, so a full one is asked for."""

        async def scenario(w: World) -> None:
            await w.first()
            w.assign(ZONE_KEY, "zone-b")
            await w.cycles(2)
            assert w.inventory.ids() == ["a-1", "b-1"]

        play(scenario, two_zones(kind), holdings=in_domains((ZONE_KEY, "zone-a")))

    def test_machines_that_we_have_stay_ours_when_their_domain_is_taken_away(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            w.unassign(ZONE_KEY, "zone-a")
            w.links["metal"].put(a_machine(id="a-1", profile=a_profile(), price_per_hour=5.0))
            w.links["metal"].put(a_machine(id="a-2"))
            await w.cycles(2)
            assert w.inventory.ids() == ["a-1"]
            assert w.inventory.machine(MachineId("a-1")).price_per_hour == 5.0

        play(scenario, two_zones(FULL_ONLY), holdings=in_domains((ZONE_KEY, "zone-a")))

    def test_a_machine_that_is_found_one_by_one_is_held_to_it_too(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            w.feeds["metal"].ask_for([MachineId("b-1")])
            await w.cycles(1)
            assert w.inventory.ids() == ["a-1"]

        play(scenario, two_zones(DELTAS), holdings=in_domains((ZONE_KEY, "zone-a")))


def two_zones(kind: Capabilities) -> FakeLink:
    zone_b = a_machine(id="b-1", profile=a_profile(zone="zone-b"))
    return FakeLink(a_machine(id="a-1"), zone_b, capabilities=kind)


class TestNotices:
    @pytest.mark.parametrize("kind", KINDS)
    def test_a_notice_is_told_once_and_holds_until_its_provider_says_otherwise(
        self, kind: Capabilities
    ) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            link = w.links["metal"]
            link.notice("m-1", at_s=500.0)
            await w.cycles(4)
            assert w.reconciler.heard.notices[M].at_s == 500.0
            assert w.diary.count(Event.INTERRUPTION_NOTICED) == 1
            notices = w.reconciler.heard.notices
            link.put(a_machine(id="m-2", price_per_hour=2.0))
            await w.cycles(2)
            assert w.reconciler.heard.notices is notices

            link.notice("m-1", at_s=900.0)  # another notice
            await w.cycles(2)
            assert w.diary.count(Event.INTERRUPTION_NOTICED) == 2
            link.notices.clear()
            link.put(a_machine())
            await w.cycles(2)
            assert w.reconciler.heard.notices == {}

        play(scenario, FakeLink(a_machine(), a_machine(id="m-2"), capabilities=kind))

    @pytest.mark.parametrize("kind", KINDS)
    def test_the_notice_of_a_machine_that_is_gone_is_gone(self, kind: Capabilities) -> None:
        async def scenario(w: World) -> None:
            w.links["metal"].notice("m-1", at_s=500.0)
            await w.first()
            assert len(w.reconciler.heard.notices) == 1
            w.links["metal"].take_away("m-1")
            await w.cycles(2)
            assert len(w.reconciler.heard.notices) == 0

        others = [a_machine(id=name) for name in names(3)]
        play(scenario, FakeLink(a_machine(), *others, capabilities=kind))

    def test_while_a_list_that_misses_a_machine_is_held_its_notice_holds(self) -> None:
        """For once the machine is given up, it must be known that this was announced."""

        async def scenario(w: World) -> None:
            w.links["metal"].notice("m-1", at_s=500.0)
            await w.first()
            w.links["metal"].take_away("m-1")
            await w.cycles(2)
            assert w.diary.count(Event.LIST_HELD)
            assert w.has()
            assert set(w.reconciler.heard.notices) == {"m-1"}
            await w.cycles(5)
            assert not w.has()
            assert len(w.reconciler.heard.notices) == 0

        play(scenario, FakeLink(a_machine(State.CONFIGURED), capabilities=FULL_ONLY))

    def test_also_when_only_a_get_has_told_so(self) -> None:
        async def scenario(w: World) -> None:
            w.links["metal"].notice("m-1", at_s=500.0)
            await w.first()
            del w.links["metal"]._there[M]
            w.feeds["metal"].ask_for([M])
            await w.cycles(1)
            assert not w.has()
            assert len(w.reconciler.heard.notices) == 0

        play(scenario, FakeLink(a_machine()))

    def test_a_get_says_nothing_about_notices(self) -> None:
        async def scenario(w: World) -> None:
            w.links["metal"].notice("m-1", at_s=500.0)
            await w.first()
            w.feeds["metal"].ask_for([M])
            await w.cycles(1)
            assert len(w.reconciler.heard.notices) == 1

        play(scenario, FakeLink(a_machine()))

    def test_each_provider_speaks_for_its_own_machines_alone(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            w.links["cloud"].notice("m-1", at_s=500.0)
            w.links["cloud"].notice("c-1", at_s=600.0)
            await w.cycles(2)
            assert set(w.reconciler.heard.notices) == {"c-1"}
            w.links["metal"].notice("m-1", at_s=700.0)
            await w.cycles(2)
            assert set(w.reconciler.heard.notices) == {"c-1", "m-1"}

        cloud = FakeLink(a_machine(), a_machine(id="c-1"), source="cloud")
        play(scenario, FakeLink(a_machine()), cloud)


class TestDefects:
    def test_a_defect_in_taking_in_a_list_is_told_and_costs_no_news(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            with broken_merges(w):
                w.links["metal"].put(a_machine(price_per_hour=3.0))
                assert await w.look() == Looked()
            (told,) = w.diary.of(Event.LIST_FAILED)
            assert "ended in a defect of ours: ZeroDivisionError" in str(told["why"])
            assert w.reconciler.heard.unreachable == {"metal"}
            await w.cycles(2)
            assert w.inventory.machine(M).price_per_hour == 3.0
            assert w.reconciler.heard.unreachable == frozenset()

        play(scenario, FakeLink(a_machine()))

    def test_nor_does_one_in_taking_in_a_single_machine(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            w.links["metal"].hides = {"m-1"}
            w.feeds["metal"].ask_for([M])
            await asyncio.sleep(1)
            with broken_merges(w):
                assert (await w.look()).changed == 0
            assert w.diary.count(Event.LIST_FAILED, "metal") == 1
            w.links["metal"].hides = set()
            w.links["metal"].put(a_machine(price_per_hour=3.0))
            await w.cycles(2)
            assert w.inventory.machine(M).price_per_hour == 3.0

        play(scenario, FakeLink(a_machine()))

    def test_an_answer_about_another_machine_is_refused(self) -> None:
        async def scenario(w: World) -> None:
            await w.first()
            link = w.links["metal"]
            link._there[M] = (0, a_machine(id="m-2"))
            w.feeds["metal"].ask_for([M])
            looked = await w.cycles(1)
            assert looked.refused == 1
            assert w.diary.count(Event.MACHINE_REFUSED, Rejected.code) == 1

        play(scenario, FakeLink(a_machine()))
