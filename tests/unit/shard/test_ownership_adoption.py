"""What is taken in from a list when machines are owned one by one, too."""

import asyncio

import pytest

from builders import a_machine, a_profile
from mainstay.inventory.inventory import Inventory
from mainstay.inventory.merge import MergeReport, Named
from mainstay.model.batch import Shape, batch_of
from mainstay.model.coordination import Domain, Handed
from mainstay.model.ids import MachineId
from mainstay.model.profile import ZONE_KEY
from mainstay.shard.ownership.holdings import Holdings
from mainstay.shard.ownership.owned import Owned, assigned, taken, unassigned
from reconciling import DELTAS, FULL_ONLY, FakeLink, World, in_domains, play

ZONE_A, ZONE_B = Domain(ZONE_KEY, "zone-a"), Domain(ZONE_KEY, "zone-b")
A_1, A_2, B_1, B_2 = map(MachineId, ("a-1", "a-2", "b-1", "b-2"))


def zone_a(shape: Shape) -> bool:
    return shape.profile.zone == "zone-a"


def merged(inventory: Inventory, **given: object) -> MergeReport:
    machines = [a_machine(id=n, profile=a_profile(zone="zone-a")) for n in (A_1, A_2)]
    machines += [a_machine(id=n, profile=a_profile(zone="zone-b")) for n in (B_1, B_2)]
    report = batch_of(machines, source="metal", full=True)
    return inventory.merge(report, now=0.0, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("many", [False, True])
def test_ids_are_taken_in_whatever_their_shape(many: bool) -> None:
    inventory = Inventory()
    others = {MachineId(f"x-{number}") for number in range(10 * many)}
    told = merged(inventory, adopt=zone_a, named=Named(ours={B_2} | others))

    assert inventory.ids() == [A_1, A_2, B_2]
    assert told.foreign == 1


@pytest.mark.parametrize("many", [False, True])
def test_what_is_away_is_passed_over_and_not_counted(many: bool) -> None:
    inventory = Inventory()
    others = {MachineId(f"x-{number}") for number in range(10 * many)}
    told = merged(inventory, adopt=zone_a, named=Named(away={A_1} | others))

    assert inventory.ids() == [A_2]
    assert (told.foreign, told.skipped) == (2, 0)


def test_what_is_away_is_passed_over_where_everything_is_taken() -> None:
    inventory = Inventory()
    merged(inventory, named=Named(away={A_1, B_1}))

    assert inventory.ids() == [A_2, B_2]


def test_a_machine_that_we_have_is_followed_although_it_is_away() -> None:
    """It goes when it is let go of, not by a list."""
    inventory = Inventory()
    merged(inventory)
    told = merged(inventory, named=Named(away={A_1}))

    assert told.unchanged == 4
    assert len(told.absent) == 0


class TestHoldings:
    def test_a_list_that_is_older_than_a_domain_brings_none_of_it(self) -> None:
        holdings = Holdings(Owned(domains=frozenset({ZONE_A}), assigned=True))
        holdings.put(assigned(holdings.owned, ZONE_B), 10.0)

        assert holdings.adoption(9.0).domains == frozenset({ZONE_A})
        assert holdings.adoption(11.0).domains == frozenset({ZONE_A, ZONE_B})
        assert holdings.is_too_old(9.0)
        assert not holdings.is_too_old(11.0)

    def test_nothing_more_is_taken_in_of_a_domain_that_is_about_to_go(self) -> None:
        holdings = Holdings(Owned(domains=frozenset({ZONE_A, ZONE_B}), assigned=True))
        holdings.close(ZONE_B)
        version = holdings.version

        assert holdings.adoption(0.0).domains == frozenset({ZONE_A})
        holdings.reopen([ZONE_B])
        assert holdings.adoption(0.0).domains == frozenset({ZONE_A, ZONE_B})
        assert holdings.version > version

    def test_nothing_more_is_taken_in_elsewhere_when_the_first_domain_comes(self) -> None:
        holdings = Holdings()
        assert holdings.adoption(0.0).domains is None
        holdings.narrow(ZONE_A)
        assert holdings.adoption(0.0).domains == frozenset({ZONE_A})
        holdings.reopen()
        assert holdings.adoption(0.0).domains is None

    def test_a_domain_that_is_gone_is_no_longer_about_to_go(self) -> None:
        holdings = Holdings(Owned(domains=frozenset({ZONE_A}), assigned=True))
        holdings.close(ZONE_A)
        holdings.put(unassigned(holdings.owned, ZONE_A))

        assert holdings.closing == frozenset()
        assert holdings.adoption(0.0).domains == frozenset()


@pytest.mark.parametrize("kind", [FULL_ONLY, DELTAS])
def test_a_domain_comes_even_while_an_older_list_is_under_way(kind: object) -> None:
    """The list that was under way is not believed about it, and a newer one is asked for."""
    machines = [a_machine(id=A_1, profile=a_profile(zone="zone-a"))]
    machines += [a_machine(id=B_1, profile=a_profile(zone="zone-b"))]
    link = FakeLink(*machines, capabilities=kind, delay_s=4.0)  # type: ignore[arg-type]

    async def scenario(w: World) -> None:
        await w.first()
        w.feeds["metal"].ask(full=True)
        await w.cycles(1, every_s=6.0)
        w.assign(*ZONE_B)
        await w.cycles(1, every_s=3.0)
        assert w.inventory.ids() == [A_1]
        await w.cycles(3)
        assert w.inventory.ids() == [A_1, B_1]

    play(scenario, link, holdings=in_domains(ZONE_A))


@pytest.mark.parametrize("kind", [FULL_ONLY, DELTAS])
def test_a_machine_that_is_taken_comes_even_while_an_older_list_is_under_way(kind: object) -> None:
    """As a shard is told at its start, when its first list was asked for just before."""
    machines = [a_machine(id=A_1, profile=a_profile(zone="zone-a"))]
    machines += [a_machine(id=B_1, profile=a_profile(zone="zone-b"))]
    link = FakeLink(*machines, capabilities=kind, delay_s=4.0)  # type: ignore[arg-type]

    async def scenario(w: World) -> None:
        w.feeds["metal"].ask()
        await asyncio.sleep(2.0)
        w.holdings.put(taken(w.holdings.owned, [Handed(B_1, "metal", ZONE_B)]), w.clock.elapsed_s())
        w.ledger.touch(B_1)
        w.reconciler.owe(B_1, "metal")
        await w.first()
        assert w.inventory.ids() == [A_1]
        await w.cycles(3)
        assert w.inventory.ids() == [A_1, B_1]

    play(scenario, link, holdings=in_domains(ZONE_A))


def test_a_machine_that_is_taken_comes_although_lists_come_faster_than_answers_about_it() -> None:
    """A quiet list says nothing of it, so no answer is out of date by one."""
    machines = [a_machine(id=A_1, profile=a_profile(zone="zone-a"))]
    machines += [a_machine(id=B_1, profile=a_profile(zone="zone-b"))]
    link = FakeLink(*machines)

    async def scenario(w: World) -> None:
        await w.first()
        link.delay_s = link.get_delay_s = 0.15
        w.holdings.put(taken(w.holdings.owned, [Handed(B_1, "metal", ZONE_B)]), w.clock.elapsed_s())
        w.reconciler.owe(B_1, "metal")
        await w.cycles(20, every_s=0.05)
        assert w.inventory.ids() == [A_1, B_1]

    play(scenario, link, holdings=in_domains(ZONE_A))
