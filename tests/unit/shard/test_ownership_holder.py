"""A shard's side of every change of hands."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Final, TypeVar

import pytest

import whole_shard
from mainstay.inventory.merge import only
from mainstay.model.batch import MachineBatch
from mainstay.model.calls import (
    Capabilities,
    ConfigureRequest,
    DrainRequest,
    GetRequest,
    ListRequest,
)
from mainstay.model.coordination import (
    AssignDomain,
    CrossShardDrain,
    Domain,
    Grant,
    Handed,
    InstructAck,
    Instruction,
    Outcome,
    Payload,
    QuotaKind,
    QuotaMoved,
    QuotaOf,
    ReassignSpeculative,
    Stray,
    TransferOwnership,
    UnassignDomain,
    Wanted,
)
from mainstay.model.errors import Unavailable, UnknownMachine
from mainstay.model.frames import NodeState
from mainstay.model.ids import MachineId, ShardId
from mainstay.model.machine import Machine
from mainstay.model.need import Operator, Requirement
from mainstay.model.profile import ZONE_KEY
from mainstay.model.state import State
from mainstay.shard.controls import ControlKind
from mainstay.shard.events import Event
from mainstay.shard.ownership import report
from mainstay.shard.ownership.draining import UNASKED_S
from mainstay.shard.ownership.giving import COMING_S
from mainstay.shard.ownership.leaving import FORGOTTEN_S, PATIENCE_S
from mainstay.shard.ownership.owned import Owned
from mainstay.shard.ownership.strays import MISSING_S, UNSEEN_S
from talking import at_once
from two_shards import three_zones, wanted, zone
from virtual_loop import run
from whole_shard import Cluster, Whole, running, sims

AnswerT = TypeVar("AnswerT")
Scenario = Callable[[Whole, Cluster], Awaitable[None]]

ZONE_A, ZONE_B, ZONE_C = zone("zone-a"), zone("zone-b"), zone("zone-c")
TWO_ZONES: Final = (f"{ZONE_KEY}=zone-a", f"{ZONE_KEY}=zone-b")
A, B = ShardId("a"), ShardId("b")
NUMBERS = count(1)


def an_instruction(payload: Payload | None, *, term: int = 1, name: str = "") -> Instruction:
    number = next(NUMBERS)
    return Instruction(term=term, sequence=number, id=name or f"i-{number}", payload=payload)


async def told(whole: Whole, payload: Payload | None, *, name: str = "") -> InstructAck | None:
    return await whole.assembled.holder.carry_out(an_instruction(payload, name=name))


async def accepted(whole: Whole, payload: Payload) -> InstructAck:
    ack = await told(whole, payload)
    assert ack is not None
    assert ack.outcome is Outcome.ACCEPTED, ack
    return ack


def play(
    folder: Path,
    scenario: Scenario,
    *,
    domains: tuple[str, ...] = TWO_ZONES,
    machines: int = 0,
    idle: int = 2,
    slots: int = 0,
) -> None:
    """With shard a over three zones of two idle machines each, and a cluster that asks."""

    async def whole_story() -> None:
        spec = three_zones(idle=idle, slots=slots)
        async with sims(spec) as providers:
            async with (
                running(folder, providers, shard_id="a", domains=domains) as whole,
                whole.cluster() as web,
            ):
                web.ask_for(machines)
                await asyncio.sleep(40)
                assert len(whole.machines(State.CONFIGURED)) == machines
                await scenario(whole, web)

    run(whole_story())


def zones(whole: Whole) -> list[str]:
    return sorted(machine.profile.zone for machine in whole.machines())


def a_transfer(machines: int = 1, **given: object) -> TransferOwnership:
    return TransferOwnership(from_shard=A, to_shard=B, wanted=wanted(machines), **given)  # type: ignore[arg-type]


def handed(name: str, domain: Domain | None = ZONE_C, provider: str = "sim") -> TransferOwnership:
    machines = (Handed(MachineId(name), provider, domain),)
    return TransferOwnership(from_shard=B, to_shard=A, machines=machines)


def lost(whole: Whole, name: str, *, denied: bool | None) -> None:
    """No list names a machine any more. Asked for it, its provider has it, denies it, or (None)
    does not answer.
    """
    link = whole.links["sim"]
    get = type(link).get

    async def answer(request: GetRequest) -> Machine:
        if denied is None:
            raise Unavailable("busy")
        if denied:
            raise UnknownMachine(request.machine)
        return await get(link, request)

    link.get = answer  # type: ignore[method-assign]
    if name in whole.assembled.live.inventory:
        whole.assembled.live.inventory.remove(MachineId(name))


def lists_all(whole: Whole, *, but: str) -> None:
    """Each list is of everything from now on, and does not name this machine."""
    link = whole.links["sim"]
    listing = link.listing

    async def without(request: ListRequest) -> MachineBatch:
        listed = await listing(dataclasses.replace(request, since=b""))
        named = [MachineId(name) for name in listed.ids if name != but]
        return dataclasses.replace(only(listed, named), full=True)

    link.__class__ = type("ListsAll", (type(link),), {"capabilities": Capabilities()})
    link.listing = without  # type: ignore[method-assign]


def promised(whole: Whole) -> int:
    return len(whole.data.owned.value.promises)


async def pause(whole: Whole, *, lasts_s: float) -> None:
    await whole.assembled.live.set_control(
        ControlKind.PAUSE, cluster=None, value=0, reason="a test", by="me", lasts_s=lasts_s
    )


async def swept(whole: Whole, seconds: float) -> None:
    for _ in range(int(seconds / 10)):
        await whole.assembled.holder.sweep()
        await asyncio.sleep(10)


class TestInstructions:
    def test_one_that_is_heard_again_is_answered_again_and_not_run_again(
        self, tmp_path: Path
    ) -> None:
        async def scenario(whole: Whole, _: Cluster) -> None:
            first = await told(whole, a_transfer(), name="give")
            again = await told(whole, a_transfer(), name="give")
            assert first == again
            assert len(whole.machines()) == 3

        play(tmp_path, scenario)

    def test_also_after_a_restart(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with sims(three_zones(idle=2, slots=0)) as providers:
                answers = []
                for _ in range(2):
                    async with running(tmp_path, providers, shard_id="a") as whole:
                        await asyncio.sleep(30)
                        answers.append(await told(whole, a_transfer(), name="give"))
                        assert len(whole.machines()) == 5
                assert answers[0] == answers[1]

        run(scenario())

    def test_one_of_an_older_term_is_refused_and_may_come_again(self, tmp_path: Path) -> None:
        async def scenario(whole: Whole, _: Cluster) -> None:
            holder = whole.assembled.holder
            await holder.hear_term(7)
            assert whole.data.owned.value.term == 7
            stale = await holder.carry_out(an_instruction(a_transfer(), term=6, name="x"))
            assert stale is not None
            assert stale.outcome is Outcome.REJECTED_STALE
            assert "term 6" in stale.reason
            fresh = await holder.carry_out(an_instruction(a_transfer(), term=8, name="x"))
            assert fresh is not None
            assert fresh.outcome is Outcome.ACCEPTED
            assert whole.data.owned.value.term == 8

        play(tmp_path, scenario)

    @pytest.mark.parametrize(
        "payload",
        [
            None,
            TransferOwnership(from_shard=ShardId("x"), to_shard=B),
            handed("m-1", provider="other"),
            handed("m 1"),
            TransferOwnership(from_shard=A, to_shard=B, wanted=Wanted(machines_max=-1)),
            TransferOwnership(
                from_shard=A,
                to_shard=B,
                wanted=Wanted(requirements=(Requirement("rack", Operator.SAME),), machines_max=1),
            ),
            AssignDomain(domain=Domain("zone", "")),
        ],
        ids=["kind", "others", "provider", "id", "nothing", "topology", "domain"],
    )
    def test_one_that_cannot_be_is_refused_for_good(
        self, tmp_path: Path, payload: Payload | None
    ) -> None:
        async def scenario(whole: Whole, _: Cluster) -> None:
            before = whole.assembled.holder.owned
            ack = await told(whole, payload, name="x")
            assert ack is not None
            assert ack.outcome is Outcome.REJECTED_INVALID
            assert ack.reason
            assert await told(whole, a_transfer(), name="x") == ack
            after = whole.assembled.holder.owned
            assert (after.domains, after.here, after.away) == (
                before.domains, before.here, before.away,
            )  # fmt: skip

        play(tmp_path, scenario)

    def test_a_change_is_made_whole_although_nobody_waits_for_it(self, tmp_path: Path) -> None:
        async def scenario(whole: Whole, _: Cluster) -> None:
            asked = asyncio.ensure_future(told(whole, UnassignDomain(domain=ZONE_B)))
            await asyncio.sleep(0)
            asked.cancel()
            await asyncio.sleep(5)
            assert whole.data.owned.value.domains == frozenset({ZONE_A})
            assert whole.assembled.holder.owned == whole.data.owned.value
            assert zones(whole) == ["zone-a"] * 2

        play(tmp_path, scenario)


class TestDomains:
    def test_what_is_free_goes_at_once_and_what_serves_stays(self, tmp_path: Path) -> None:
        """Nobody has lost anything: no cluster is told, no breaker counts."""

        async def scenario(whole: Whole, web: Cluster) -> None:
            serving = {each.id for each in whole.machines(State.CONFIGURED)}
            before = len(web.line.heard(NodeState))
            await accepted(whole, UnassignDomain(domain=ZONE_B))
            assert {each.id for each in whole.machines()} == serving | {
                each.id for each in whole.machines() if each.profile.zone == "zone-a"
            }
            strays = whole.assembled.holder.owned.here
            assert {stray.machine for stray in strays.values()} == {
                name for name in serving if "zone-b" in name
            }
            assert all(each.leaving and each.domain == ZONE_B for each in strays.values())
            await asyncio.sleep(60)
            assert {each.id for each in whole.machines(State.CONFIGURED)} == serving
            assert len(web.line.heard(NodeState)) == before
            assert whole.journal.of(Event.MACHINE_REMOVED) == []
            assert len(whole.journal.of(Event.MACHINE_STRAYED)) == 1

        play(tmp_path, scenario, machines=3)

    def test_a_stray_goes_when_it_is_free(self, tmp_path: Path) -> None:
        async def scenario(whole: Whole, web: Cluster) -> None:
            await accepted(whole, UnassignDomain(domain=ZONE_B))
            await whole.assembled.holder.sweep()
            assert zones(whole) == ["zone-a", "zone-a", "zone-b", "zone-b"]
            web.ask_for(0)
            for _ in range(100):
                await asyncio.sleep(1)
                await whole.assembled.holder.sweep()
            assert zones(whole) == ["zone-a"] * 2
            assert whole.data.owned.value.here == {}
            assert whole.journal.of(Event.MACHINE_LET_GO) == ["stray_free"] * 2

        play(tmp_path, scenario, machines=4)

    def test_but_not_before_somebody_has_heard_that_it_was_kept(self, tmp_path: Path) -> None:
        """Else nobody knows with which machine its quota goes."""

        async def scenario(whole: Whole, web: Cluster) -> None:
            holder = whole.assembled.holder
            await accepted(whole, UnassignDomain(domain=ZONE_B))
            [one, other] = sorted(holder.owned.here)
            web.ask_for(0)
            for _ in range(100):
                await asyncio.sleep(1)
                await holder.sweep(told=frozenset())
            assert holder.owned.here.keys() == {one, other}
            await holder.sweep(told=frozenset({(other, ZONE_B)}))
            assert holder.owned.here.keys() == {one}

        play(tmp_path, scenario, machines=4)

    def test_nothing_is_begun_where_a_domain_is_about_to_go(self, tmp_path: Path) -> None:
        async def scenario(whole: Whole, web: Cluster) -> None:
            ledger = whole.assembled.live.ledger
            held = next(each.id for each in whole.machines() if each.profile.zone == "zone-b")
            ledger.take(held)
            assert await told(whole, UnassignDomain(domain=ZONE_B)) is None
            assert whole.assembled.holder.barred().values == {ZONE_B}
            web.ask_for(4)
            await asyncio.sleep(40)
            serving = whole.machines(State.CONFIGURED)
            assert {each.profile.zone for each in serving} == {"zone-a"}
            ledger.give_back(held)
            await accepted(whole, UnassignDomain(domain=ZONE_B))
            assert zones(whole) == ["zone-a"] * 2

        play(tmp_path, scenario)

    def test_what_is_in_hand_for_too_long_is_kept_as_a_stray(self, tmp_path: Path) -> None:
        async def scenario(whole: Whole, _: Cluster) -> None:
            held = next(each.id for each in whole.machines() if each.profile.zone == "zone-b")
            whole.assembled.live.ledger.take(held)
            assert await told(whole, UnassignDomain(domain=ZONE_B)) is None
            await asyncio.sleep(PATIENCE_S)
            await accepted(whole, UnassignDomain(domain=ZONE_B))
            assert whole.assembled.holder.owned.here.keys() == {held}

        play(tmp_path, scenario)

    def test_a_domain_that_nobody_asks_for_any_more_is_used_again(self, tmp_path: Path) -> None:
        async def scenario(whole: Whole, _: Cluster) -> None:
            held = next(each.id for each in whole.machines() if each.profile.zone == "zone-b")
            whole.assembled.live.ledger.take(held)
            assert await told(whole, UnassignDomain(domain=ZONE_B)) is None
            await asyncio.sleep(FORGOTTEN_S)
            await whole.assembled.holder.sweep()
            assert not whole.assembled.holder.barred()

        play(tmp_path, scenario)

    def test_the_first_domain_lets_go_of_what_is_free_elsewhere(self, tmp_path: Path) -> None:
        async def scenario(whole: Whole, _: Cluster) -> None:
            assert len(whole.machines()) == 6
            await accepted(whole, AssignDomain(domain=ZONE_A))
            owned = whole.assembled.holder.owned
            elsewhere = {each.id for each in whole.machines() if each.profile.zone != "zone-a"}
            assert owned.here.keys() == elsewhere
            assert {stray.domain for stray in owned.here.values()} <= {ZONE_B, ZONE_C}
            assert len(whole.machines(State.CONFIGURED)) == 5

        play(tmp_path, scenario, domains=(), machines=5)

    def test_a_shard_that_takes_everything_has_no_domain_to_lose(self, tmp_path: Path) -> None:
        async def scenario(whole: Whole, _: Cluster) -> None:
            ack = await told(whole, UnassignDomain(domain=ZONE_B))
            assert ack is not None
            assert ack.outcome is Outcome.REJECTED_INVALID
            assert len(whole.machines()) == 6

        play(tmp_path, scenario, domains=())

    def test_a_domain_comes_without_what_others_have_of_it(self, tmp_path: Path) -> None:
        async def scenario(whole: Whole, _: Cluster) -> None:
            away = MachineId("m5.large.zone-c.reserved.00000")
            await accepted(whole, AssignDomain(domain=ZONE_C, away=(away,)))
            await asyncio.sleep(30)
            assert zones(whole).count("zone-c") == 1
            assert away not in whole.assembled.live.inventory

        play(tmp_path, scenario)

    @pytest.mark.parametrize(
        "payload", [UnassignDomain(domain=ZONE_B), AssignDomain(domain=ZONE_A)]
    )
    def test_nothing_is_let_go_of_before_it_is_known_what_serves(
        self, tmp_path: Path, payload: Payload
    ) -> None:
        async def scenario() -> None:
            domains = TWO_ZONES if isinstance(payload, UnassignDomain) else ()
            async with sims(three_zones(idle=2, slots=0)) as providers:
                async with running(tmp_path, providers, shard_id="a", domains=domains) as whole:
                    whole.links["sim"].hangs = True
                    await asyncio.sleep(200)
                    assert whole.assembled.live.reconciler.heard.ready
                    assert await told(whole, payload) is None

        run(scenario())


class TestGiving:
    def test_what_our_own_demand_wants_is_never_given_however_little_it_matters(
        self, tmp_path: Path
    ) -> None:
        """Nor what it only waits for: here everything is held back."""

        async def scenario(whole: Whole, web: Cluster) -> None:
            await whole.assembled.live.set_control(
                ControlKind.PAUSE, cluster=None, value=0, reason="a test", by="me", lasts_s=500
            )
            web.ask_for(3, priority=-1000)
            await asyncio.sleep(12)
            assert len(whole.machines(State.IDLE)) == 4
            assert len((await accepted(whole, a_transfer(4))).given) == 1
            assert (await accepted(whole, a_transfer(4))).given == ()

        play(tmp_path, scenario)

    def test_no_more_than_asked_for_and_only_what_the_recipient_can_see(
        self, tmp_path: Path
    ) -> None:
        async def scenario(whole: Whole, _: Cluster) -> None:
            blind = Wanted(deficit={"cpu": 8000}, machines_max=4, providers=("other",))
            unseen = TransferOwnership(from_shard=A, to_shard=B, wanted=blind)
            assert (await accepted(whole, unseen)).given == ()
            capped = Wanted(deficit={"cpu": 10**6}, machines_max=3, providers=("sim",))
            ack = await accepted(whole, TransferOwnership(from_shard=A, to_shard=B, wanted=capped))
            assert len(ack.given) == 3
            assert {each.domain for each in ack.given} <= {ZONE_A, ZONE_B}
            assert len(whole.machines()) == 1
            await asyncio.sleep(400)
            assert len(whole.machines()) == 1
            assert whole.data.owned.value.away.keys() == {each.machine for each in ack.given}

        play(tmp_path, scenario)

    def test_requirements_choose(self, tmp_path: Path) -> None:
        async def scenario(whole: Whole, _: Cluster) -> None:
            in_b = Requirement(ZONE_KEY, Operator.IN, ("zone-b",))
            some = Wanted(
                requirements=(in_b,), deficit={"cpu": 10**6}, machines_max=4, providers=("sim",)
            )
            ack = await accepted(whole, TransferOwnership(from_shard=A, to_shard=B, wanted=some))
            assert {each.domain for each in ack.given} == {ZONE_B}

        play(tmp_path, scenario)

    def test_a_transfer_that_was_called_off_gives_nothing(self, tmp_path: Path) -> None:
        async def scenario(whole: Whole, _: Cluster) -> None:
            ack = await accepted(whole, a_transfer(0))
            assert (ack.given, ack.reason) == ((), "it was called off")
            assert len(whole.machines()) == 4

        play(tmp_path, scenario)

    def test_a_machine_of_unknown_provider_comes_back_by_a_list(self, tmp_path: Path) -> None:
        """A domain is assigned with the names alone of what others have there."""

        async def scenario(whole: Whole, _: Cluster) -> None:
            away = MachineId("m5.large.zone-c.reserved.00000")
            await accepted(whole, AssignDomain(domain=ZONE_C, away=(away,)))
            await asyncio.sleep(30)
            assert away not in whole.assembled.live.inventory
            await accepted(whole, handed(away, provider=""))
            await asyncio.sleep(30)
            assert away in whole.assembled.live.inventory
            ack = await told(whole, handed("m-1", provider=""))
            assert ack is not None
            assert ack.outcome is Outcome.REJECTED_INVALID

        play(tmp_path, scenario)

    def test_slots_are_given_as_slots_and_machines_as_machines(self, tmp_path: Path) -> None:
        async def scenario(whole: Whole, _: Cluster) -> None:
            slots = ReassignSpeculative(from_shard=A, to_shard=B, wanted=wanted(9))
            ack = await accepted(whole, slots)
            assert all(".od." in each.machine for each in ack.given)
            assert len(ack.given) == 4
            ack = await accepted(whole, a_transfer(9))
            assert all(".reserved." in each.machine for each in ack.given)

        play(tmp_path, scenario, slots=2)

    def test_named_machines_are_given_if_they_can_be_spared(self, tmp_path: Path) -> None:
        async def scenario(whole: Whole, _: Cluster) -> None:
            named = tuple(Handed(each.id, "sim", None) for each in whole.machines())
            payload = TransferOwnership(from_shard=A, to_shard=B, machines=named)
            ack = await accepted(whole, payload)
            assert len(ack.given) == 1
            assert len(whole.machines(State.CONFIGURED)) == 3

        play(tmp_path, scenario, machines=3)

    def test_a_machine_that_is_handed_over_is_asked_for_and_used(self, tmp_path: Path) -> None:
        async def scenario(whole: Whole, web: Cluster) -> None:
            name = "m5.large.zone-c.reserved.00000"
            await accepted(whole, handed(name))
            web.ask_for(5)
            await asyncio.sleep(60)
            assert whole.machine(name).state is State.CONFIGURED

        play(tmp_path, scenario)

    @pytest.mark.parametrize("says_changes", [True, False])
    @pytest.mark.parametrize(
        ("name", "seconds"), [("m5.large.zone-c.reserved.00000", MISSING_S), ("no-such", UNSEEN_S)]
    )
    def test_a_stray_that_its_provider_does_not_have_is_dropped_in_time(
        self, tmp_path: Path, name: str, seconds: float, says_changes: bool
    ) -> None:
        async def scenario(whole: Whole, _: Cluster) -> None:
            holder = whole.assembled.holder
            await accepted(whole, handed(name))
            await asyncio.sleep(20)
            await holder.sweep()
            if not says_changes:
                lists_all(whole, but=name)
            lost(whole, name, denied=True)
            await swept(whole, seconds - 20)
            assert name in holder.owned.here
            await swept(whole, 60)
            assert name not in holder.owned.here

        play(tmp_path, scenario)

    def test_a_stray_of_which_the_word_is_lost_is_asked_for_again_soon(
        self, tmp_path: Path
    ) -> None:
        async def scenario(whole: Whole, _: Cluster) -> None:
            name = "m5.large.zone-c.reserved.00000"
            await accepted(whole, handed(name))
            await asyncio.sleep(20)
            whole.assembled.live.inventory.remove(MachineId(name))
            await swept(whole, 20)
            assert name in whole.assembled.live.inventory

        play(tmp_path, scenario)

    def test_a_stray_that_its_provider_denies_once_and_has_again_stays(
        self, tmp_path: Path
    ) -> None:
        async def scenario(whole: Whole, _: Cluster) -> None:
            name, holder = "m5.large.zone-c.reserved.00000", whole.assembled.holder
            await accepted(whole, handed(name))
            await asyncio.sleep(20)
            await holder.sweep()
            lost(whole, name, denied=True)
            await swept(whole, MISSING_S - 40)
            lost(whole, name, denied=None)
            await swept(whole, 3 * UNSEEN_S)
            assert name in holder.owned.here

        play(tmp_path, scenario)

    def test_a_stray_that_is_only_not_listed_stays(self, tmp_path: Path) -> None:
        """Whoever owns its domain would get a machine that serves somebody else's cluster."""

        async def scenario(whole: Whole, _: Cluster) -> None:
            name, holder = "m5.large.zone-c.reserved.00000", whole.assembled.holder
            await accepted(whole, handed(name))
            await asyncio.sleep(20)
            await holder.sweep()
            lost(whole, name, denied=False)
            await swept(whole, 3 * UNSEEN_S)
            assert name in holder.owned.here
            await asyncio.sleep(20)
            assert name in whole.assembled.live.inventory

        play(tmp_path, scenario)

    def test_a_stray_stays_while_its_provider_does_not_answer_for_it(self, tmp_path: Path) -> None:
        async def scenario(whole: Whole, _: Cluster) -> None:
            name, holder = "m5.large.zone-c.reserved.00000", whole.assembled.holder
            await accepted(whole, handed(name))
            await asyncio.sleep(20)
            await holder.sweep()
            lost(whole, name, denied=None)
            await swept(whole, 3 * UNSEEN_S)
            assert name in holder.owned.here
            lost(whole, name, denied=True)
            await swept(whole, 60)
            assert name not in holder.owned.here

        play(tmp_path, scenario)


class TestRelabelled:
    """Its provider says that a machine lies elsewhere."""

    def relabelled(self, whole: Whole, zone_of: Callable[[Machine], str]) -> None:
        inventory = whole.assembled.live.inventory
        for machine in whole.machines():
            profile = dataclasses.replace(machine.profile, zone=zone_of(machine))
            inventory.remove(machine.id)
            inventory.add(dataclasses.replace(machine, profile=profile), now=0.0, source="sim")

    def test_it_is_a_stray_that_leaves(self, tmp_path: Path) -> None:
        async def scenario(whole: Whole, _: Cluster) -> None:
            holder = whole.assembled.holder
            name = min(each.id for each in whole.machines())
            self.relabelled(whole, lambda m: "zone-c" if m.id == name else m.profile.zone)
            await holder.sweep(told=frozenset())
            assert dict(holder.owned.here) == {
                name: Stray(MachineId(name), "sim", ZONE_C, leaving=True)
            }
            assert whole.data.owned.value.here == holder.owned.here
            assert name in holder.barred().machines or holder.barred().values == {ZONE_C}

        play(tmp_path, scenario)

    def test_one_without_the_label_stays_where_it_was(self, tmp_path: Path) -> None:
        async def scenario(whole: Whole, _: Cluster) -> None:
            self.relabelled(whole, lambda _: "")
            await whole.assembled.holder.sweep()
            assert whole.assembled.holder.owned.here == {}
            assert len(whole.machines()) == 4

        play(tmp_path, scenario)


class TestDraining:
    def drain(self, machines: int = 1, *, bucket: int = 5, priority: int = 1000) -> Payload:
        return CrossShardDrain(
            to_shard=B,
            wanted=wanted(machines, bucket=bucket),
            preemptor_priority=priority,
        )

    async def until_told(self, whole: Whole, payload: Payload, seconds: int = 120) -> InstructAck:
        for _ in range(seconds):
            ack = await told(whole, payload, name="drain")
            if ack is not None:
                return ack
            await asyncio.sleep(1)
            await whole.assembled.holder.sweep()
        raise AssertionError("never")

    def test_what_matters_less_is_drained_and_then_given(self, tmp_path: Path) -> None:
        async def scenario(whole: Whole, web: Cluster) -> None:
            ack = await self.until_told(whole, self.drain())
            assert len(ack.given) == 1
            assert [told.preemptor_priority for told in web.reclaims] == [1000]
            assert len(whole.machines()) == 3
            assert whole.data.owned.value.promises == ()

        play(tmp_path, scenario, machines=4)

    def test_a_promise_survives_a_restart(self, tmp_path: Path) -> None:
        async def scenario(whole: Whole, _: Cluster) -> None:
            assert await told(whole, self.drain(), name="drain") is None
            kept = whole.data.owned.value.promises[0]
            victim = kept.victims[0].handed.machine
            assert whole.assembled.holder.barred().machines == {victim}
            assert (kept.to, kept.priority, len(kept.victims)) == (B, 1000, 1)

        play(tmp_path, scenario, machines=4)

    def test_what_was_called_off_before_it_was_heard_drains_nothing(self, tmp_path: Path) -> None:
        async def scenario(whole: Whole, web: Cluster) -> None:
            ack = await told(whole, self.drain(0), name="drain")
            assert ack is not None
            assert (ack.outcome, ack.given) == (Outcome.ACCEPTED, ())
            await swept(whole, 60)
            assert web.reclaims == []
            assert len(whole.machines(State.CONFIGURED)) == 4

        play(tmp_path, scenario, machines=4)

    def test_what_still_serves_is_not_drained_for_what_was_called_off(self, tmp_path: Path) -> None:
        """The other victim is on its way already: it is emptied and given."""

        async def scenario(whole: Whole, web: Cluster) -> None:
            holder = whole.assembled.holder
            await pause(whole, lasts_s=50)
            assert await told(whole, self.drain(2), name="drain") is None
            [promise] = whole.data.owned.value.promises
            assert len(promise.victims) == 2
            begun = promise.victims[0].handed.machine
            whole.assembled.live.ledger.take(begun)
            assert await told(whole, self.drain(0), name="drain") is None
            [kept] = whole.data.owned.value.promises
            assert [each.handed.machine for each in kept.victims] == [begun]
            assert holder.barred().machines == {begun}
            whole.assembled.live.ledger.give_back(begun)
            ack = await told(whole, self.drain(0), name="drain")
            assert ack is not None
            assert ack.given == ()
            await swept(whole, 100)
            assert web.reclaims == []

        play(tmp_path, scenario, machines=4)

    def test_what_is_idle_by_then_is_given_although_it_was_called_off(self, tmp_path: Path) -> None:
        async def scenario(whole: Whole, web: Cluster) -> None:
            assert await told(whole, self.drain(), name="drain") is None
            victim = whole.data.owned.value.promises[0].victims[0].handed.machine
            await swept(whole, 100)
            assert whole.machine(victim).state is State.IDLE
            ack = await told(whole, self.drain(0), name="drain")
            assert ack is not None
            assert [each.machine for each in ack.given] == [victim]

        play(tmp_path, scenario, machines=4)

    def test_a_promise_that_nobody_asks_for_any_more_is_dropped(self, tmp_path: Path) -> None:
        async def scenario(whole: Whole, web: Cluster) -> None:
            await pause(whole, lasts_s=3 * UNASKED_S)
            assert await told(whole, self.drain(), name="drain") is None
            await swept(whole, UNASKED_S / 2)
            assert await told(whole, self.drain(), name="drain") is None
            await swept(whole, UNASKED_S - 10)
            assert promised(whole) == 1
            await swept(whole, 200)
            assert promised(whole) == 0
            assert not whole.assembled.holder.barred()
            assert web.reclaims == []

        play(tmp_path, scenario, machines=4)

    @pytest.mark.parametrize(("bucket", "priority"), [(1, 1000), (5, 100), (5, 50)])
    def test_what_matters_as_much_is_let_be(
        self, tmp_path: Path, bucket: int, priority: int
    ) -> None:
        async def scenario(whole: Whole, _: Cluster) -> None:
            ack = await told(whole, self.drain(bucket=bucket, priority=priority))
            assert ack is not None
            assert (ack.outcome, ack.given) == (Outcome.ACCEPTED, ())
            assert whole.data.owned.value.promises == ()

        play(tmp_path, scenario, machines=4)

    def test_an_idle_machine_is_given_rather_than_one_that_serves(self, tmp_path: Path) -> None:
        async def scenario(whole: Whole, _: Cluster) -> None:
            ack = await told(whole, self.drain())
            assert ack is not None
            assert len(ack.given) == 1
            assert len(whole.machines(State.CONFIGURED)) == 3

        play(tmp_path, scenario, machines=3)

    @pytest.mark.parametrize("kind", [ControlKind.PAUSE, ControlKind.SHADOW])
    def test_a_shard_that_is_held_back_drains_nothing_and_its_promise_ends(
        self, tmp_path: Path, kind: ControlKind
    ) -> None:
        async def scenario(whole: Whole, _: Cluster) -> None:
            await whole.assembled.live.set_control(
                kind, cluster=None, value=0, reason="a test", by="me", lasts_s=5000
            )
            ack = await self.until_told(whole, self.drain(), seconds=1000)
            assert ack.given == ()
            assert not any(isinstance(each, DrainRequest) for each in whole.links["sim"].sent)
            assert not whole.assembled.holder.barred()
            assert len(whole.machines(State.CONFIGURED)) == 4

        play(tmp_path, scenario, machines=4)


def at_sim(whole: Whole) -> tuple[int, int]:
    """What is held of the provider's quota, and what the file says."""
    place = ("sim", "")
    quota = whole.assembled.quota
    return quota.held().slots[place], whole.data.quota.value.slots[place]


class TestQuota:
    """What goes counts for whoever gets it. Else both could fill the same room."""

    OF_SIM = QuotaOf(QuotaKind.PLACE, "sim")

    async def hold(self, whole: Whole, count: int) -> None:
        grants = [Grant(self.OF_SIM, count, -1), Grant(QuotaOf(QuotaKind.CLUSTER, "web"), 9, -1)]
        await whole.assembled.quota.hear(grants)

    def test_it_goes_with_idle_machines_and_not_with_slots(self, tmp_path: Path) -> None:
        async def scenario(whole: Whole, _: Cluster) -> None:
            await self.hold(whole, 6)
            ack = await told(whole, a_transfer(2), name="give")
            assert ack is not None
            assert ack.quota == (QuotaMoved(self.OF_SIM, 2),)
            assert at_sim(whole) == (4, 4)
            assert whole.assembled.quota.held().machines == {"web": 9}
            assert await told(whole, a_transfer(2), name="give") == ack
            assert at_sim(whole) == (4, 4)
            slots = ReassignSpeculative(from_shard=A, to_shard=B, wanted=wanted(2))
            ack = await accepted(whole, slots)
            assert len(ack.given) == 2
            assert ack.quota == ()
            assert at_sim(whole) == (4, 4)

        play(tmp_path, scenario, slots=2)

    def test_nothing_goes_where_no_number_is_held(self, tmp_path: Path) -> None:
        async def scenario(whole: Whole, _: Cluster) -> None:
            assert (await accepted(whole, a_transfer(2))).quota == ()
            assert not (tmp_path / "quota.json").exists()

        play(tmp_path, scenario)

    def test_it_goes_with_what_is_free_in_a_domain_and_later_with_the_rest(
        self, tmp_path: Path
    ) -> None:
        async def scenario(whole: Whole, web: Cluster) -> None:
            await self.hold(whole, 6)
            strays = [each for each in whole.machines() if each.profile.zone == "zone-b"]
            serving = [each for each in strays if each.state is State.CONFIGURED]
            free = len(strays) - len(serving)
            assert free == 1
            ack = await accepted(whole, UnassignDomain(domain=ZONE_B))
            assert ack.quota == (QuotaMoved(self.OF_SIM, free),)
            assert at_sim(whole) == (5, 5)
            web.ask_for(0)
            await swept(whole, 200)
            assert zones(whole) == ["zone-a"] * 2
            assert at_sim(whole) == (6 - len(strays), 6 - len(strays))

        play(tmp_path, scenario, machines=3)

    def test_it_goes_with_what_is_free_elsewhere_when_the_first_domain_comes(
        self, tmp_path: Path
    ) -> None:
        async def scenario(whole: Whole, _: Cluster) -> None:
            await self.hold(whole, 6)
            ack = await accepted(whole, AssignDomain(domain=ZONE_A))
            assert ack.quota == (QuotaMoved(self.OF_SIM, 4),)
            assert at_sim(whole) == (2, 2)

        play(tmp_path, scenario, domains=())

    @pytest.mark.parametrize("file", ["quota.json.new", "owned.json.new"])
    def test_a_disk_that_does_not_take_it_gives_no_machine(self, tmp_path: Path, file: str) -> None:
        """Quota that was lowered for nothing is free for everybody: the next report says so."""

        async def scenario(whole: Whole, _: Cluster) -> None:
            await whole.assembled.holder.hear_term(1)
            await self.hold(whole, 6)
            (tmp_path / file).mkdir()
            for payload in (a_transfer(2), UnassignDomain(domain=ZONE_B)):
                ack = await told(whole, payload)
                assert ack is not None
                assert ack.outcome is Outcome.FAILED
            (tmp_path / file).rmdir()
            assert len(whole.machines()) == 4
            assert at_sim(whole)[0] == (6 if file == "quota.json.new" else 4)
            await whole.assembled.holder.sweep()
            assert len(whole.assembled.live.ledger) == 0

        play(tmp_path, scenario)

    def test_a_machine_that_was_taken_is_coming_until_it_is_seen_or_given_up(
        self, tmp_path: Path
    ) -> None:
        async def scenario(whole: Whole, _: Cluster) -> None:
            holder = whole.assembled.holder
            assert holder.coming == frozenset()
            await accepted(whole, handed("m5.large.zone-c.reserved.00000"))
            assert holder.coming == {"sim"}
            await asyncio.sleep(20)
            assert holder.coming == frozenset()
            await accepted(whole, handed("no-such"))
            assert holder.coming == {"sim"}
            await asyncio.sleep(20)
            assert holder.coming == frozenset(), "its provider has said that it has none"
            lost(whole, "no-other", denied=None)
            await accepted(whole, handed("no-other"))
            await asyncio.sleep(COMING_S - 1)
            assert holder.coming == {"sim"}
            await asyncio.sleep(2)
            assert holder.coming == frozenset()

        play(tmp_path, scenario)

    def test_a_domain_that_was_assigned_is_coming_until_it_was_listed(self, tmp_path: Path) -> None:
        async def scenario(whole: Whole, _: Cluster) -> None:
            await accepted(whole, AssignDomain(domain=ZONE_C))
            assert whole.assembled.holder.coming == {"sim"}
            assert zones(whole).count("zone-c") == 0
            await asyncio.sleep(30)
            assert whole.assembled.holder.coming == frozenset()
            assert zones(whole).count("zone-c") == 2

        play(tmp_path, scenario)


class TestBounds:
    """A report with more strays than can be heard is not heard at all, and neither are its acks."""

    @pytest.mark.parametrize("limit", ["NAMED_MAX", "NAMED_BYTES_MAX"])
    @pytest.mark.parametrize("narrows", [False, True])
    def test_more_strays_than_can_be_reported_are_refused_before_anything_changes(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, narrows: bool, limit: str
    ) -> None:
        async def scenario(whole: Whole, web: Cluster) -> None:
            monkeypatch.setattr(report, limit, 1)
            await whole.assembled.quota.hear([Grant(TestQuota.OF_SIM, 6, -1)])
            before = whole.assembled.holder.owned
            payload = AssignDomain(domain=ZONE_C) if narrows else UnassignDomain(domain=ZONE_B)
            ack = await told(whole, payload)
            assert ack is not None
            assert ack.outcome is Outcome.REJECTED_INVALID
            assert "drain or move machines first" in ack.reason
            after = whole.assembled.holder.owned
            assert (after.domains, after.here) == (before.domains, before.here)
            assert at_sim(whole) == (6, 6)
            assert len(whole.assembled.live.ledger) == 0
            assert not whole.assembled.holder.barred()
            web.ask_for(4)
            await asyncio.sleep(40)
            assert len(whole.machines(State.CONFIGURED)) == 4

        play(tmp_path, scenario, domains=() if narrows else TWO_ZONES, machines=4, idle=2)

    def test_more_than_can_be_reported_are_not_taken(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def scenario(whole: Whole, _: Cluster) -> None:
            monkeypatch.setattr(report, "NAMED_MAX", 1)
            await accepted(whole, handed("m-1"))
            ack = await told(whole, handed("m-2"))
            assert ack is not None
            assert ack.outcome is Outcome.REJECTED_INVALID
            assert whole.assembled.holder.owned.here.keys() == {"m-1"}

        play(tmp_path, scenario)


class TestConfiguration:
    """A domain that moves because two files were edited, while machines of it serve."""

    def lives(self, folder: Path, *stories: tuple[tuple[str, ...], Scenario]) -> None:
        async def all_of_them() -> None:
            async with sims(three_zones(idle=2, slots=0)) as providers:
                for domains, story in stories:
                    async with (
                        running(
                            folder,
                            providers,
                            shard_id="a",
                            domains=domains,
                            joins=not domains,
                            coordinators=("127.0.0.1:1",),
                        ) as whole,
                        whole.cluster() as web,
                    ):
                        web.ask_for(3)
                        await story(whole, web)

        run(all_of_them())

    def test_what_serves_in_a_domain_that_is_no_longer_named_is_kept(self, tmp_path: Path) -> None:
        async def first(whole: Whole, _: Cluster) -> None:
            await swept(whole, 40)
            assert len(whole.machines(State.CONFIGURED)) == 3

        async def then(whole: Whole, web: Cluster) -> None:
            assert whole.assembled.holder.barred().values == {ZONE_B}
            assert await told(whole, AssignDomain(domain=ZONE_C)) is None
            await swept(whole, 40)
            owned = whole.data.owned.value
            assert {stray.domain for stray in owned.here.values()} == {ZONE_B}
            assert all(stray.leaving for stray in owned.here.values())
            assert whole.assembled.holder.owned.domains == frozenset({ZONE_A})
            assert not owned.assigned
            serving = whole.machines(State.CONFIGURED)
            assert len(serving) == len(whole.machines()) == 3
            await accepted(whole, AssignDomain(domain=ZONE_C))

        self.lives(tmp_path, (TWO_ZONES, first), (TWO_ZONES[:1], then))

    def test_also_the_last_one_and_also_if_it_was_not_looked_at_in_one_life(
        self, tmp_path: Path
    ) -> None:
        async def first(whole: Whole, _: Cluster) -> None:
            await swept(whole, 40)
            assert len(whole.machines(State.CONFIGURED)) == 2

        async def blind(whole: Whole, _: Cluster) -> None:
            whole.links["sim"].hangs = True
            await swept(whole, 200)
            assert whole.assembled.holder.owned.retiring == {ZONE_A}

        async def then(whole: Whole, _: Cluster) -> None:
            await swept(whole, 40)
            assert whole.data.owned.value.here.keys() == {each.id for each in whole.machines()}
            assert len(whole.machines(State.CONFIGURED)) == 2

        self.lives(tmp_path, (TWO_ZONES[:1], first), ((), blind), ((), then))


class TestDisk:
    def test_what_the_disk_does_not_take_has_not_happened(self, tmp_path: Path) -> None:
        async def scenario(whole: Whole, web: Cluster) -> None:
            await whole.assembled.holder.hear_term(1)
            (tmp_path / "owned.json.new").mkdir()
            before = whole.assembled.holder.owned
            for payload in (a_transfer(), UnassignDomain(domain=ZONE_B), handed("x")):
                ack = await told(whole, payload)
                assert ack is not None
                assert ack.outcome is Outcome.FAILED
                assert "cannot be written" in ack.reason
            assert whole.assembled.holder.owned == before
            assert len(whole.machines()) == 4
            (tmp_path / "owned.json.new").rmdir()
            await whole.assembled.holder.sweep()
            web.ask_for(2)
            await asyncio.sleep(40)
            assert len(whole.machines(State.CONFIGURED)) == 2
            assert len(whole.assembled.live.ledger) == 0

        play(tmp_path, scenario)

    def test_what_may_have_been_given_is_not_used_until_the_disk_is_sure(
        self, tmp_path: Path
    ) -> None:
        """The write may have reached the disk although it failed."""

        async def scenario(whole: Whole, web: Cluster) -> None:
            await whole.assembled.holder.hear_term(1)
            (tmp_path / "owned.json.new").mkdir()
            assert (await told(whole, a_transfer(1))) is not None
            web.ask_for(4)
            await asyncio.sleep(60)
            assert len(whole.machines(State.CONFIGURED)) == 3

        play(tmp_path, scenario)

    def test_a_slow_disk_delays_no_cycle_and_nothing_is_begun_meanwhile(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def slow(work: Callable[[], AnswerT]) -> AnswerT:
            if "Keeping.keep" in getattr(work, "__qualname__", ""):
                await asyncio.sleep(45)
            return await at_once(work)

        monkeypatch.setattr(whole_shard, "at_once", slow)

        async def scenario(whole: Whole, web: Cluster) -> None:
            await whole.assembled.holder.hear_term(1)
            giving = asyncio.ensure_future(told(whole, a_transfer(4)))
            await asyncio.sleep(1)
            cycles = len(whole.cycles)
            web.ask_for(4)
            await asyncio.sleep(40)
            assert len(whole.cycles) >= cycles + 4
            assert not any(isinstance(each, ConfigureRequest) for each in whole.links["sim"].sent)
            ack = await giving
            assert ack is not None
            assert whole.machines() == []

        play(tmp_path, scenario)

    def test_a_shard_without_a_coordinator_writes_nothing(self, tmp_path: Path) -> None:
        async def scenario(whole: Whole, _: Cluster) -> None:
            await asyncio.sleep(100)
            assert not (tmp_path / "owned.json").exists()
            assert whole.data.owned.value == Owned()

        play(tmp_path, scenario)
