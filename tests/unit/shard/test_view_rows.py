"""Rows from columns: what `get` shows is what the machines are."""

import pytest

from live_shard import BATCH, LATE, NOW_S, RACK, WEB, a_plan, a_shard, fleet, gang_need, short_need
from mainstay.engine.plan import Plan
from mainstay.model.action import Action, ActionKind
from mainstay.model.errors import Rejected
from mainstay.model.ids import MachineId
from mainstay.model.machine import Machine
from mainstay.model.need import NeedProfile, Operator, Requirement, Spread, WhenUnsatisfiable
from mainstay.model.profile import ZONE_KEY
from mainstay.model.state import State
from mainstay.model.views import ActionQuery, MachineQuery, MachineRow, NeedQuery
from mainstay.shard import shortfalls
from mainstay.shard.answers.clusters import cluster_rows, holdings
from mainstay.shard.answers.rows import (
    CHUNK,
    action_rows,
    asks_for,
    machine_chunks,
    need_rows,
    quantities,
    selected,
    shortfall_row,
    spend_by_state,
)
from mainstay.shard.answers.saying import saying
from mainstay.shard.orders import Disposed, Order, Told
from mainstay.shard.outcomes import Disposition

PLAN = a_plan()


def rows(plan: Plan, query: MachineQuery) -> list[MachineRow]:
    chosen = selected(plan.snapshot, query)
    return [row for chunk in machine_chunks(plan, chosen) for row in chunk]


def source_of(machine: Machine) -> str:
    return "cloud" if machine.profile.zone == "zone-b" else "metal"


def shown(row: MachineRow) -> list[str]:
    """What a list shows of a machine, but for what it costs."""
    told = (row.id, str(row.state), row.cluster, row.instance_type, row.zone)
    return [each.casefold() for each in (*told, row.capacity_type, row.action)]


class TestText:
    @pytest.mark.parametrize(
        "text",
        ["", "c-00", "X-0", "03", "IDLE", "conf", "web", "zone-B", "2xlarge", "demand", "boot",
         "c-001x", "-001c", "nothing has this"],
    )  # fmt: skip
    def test_machines_are_found_by_any_part_of_what_is_shown(self, text: str) -> None:
        chosen = selected(PLAN.snapshot, MachineQuery())

        found = saying(PLAN, chosen, text)

        every = rows(PLAN, MachineQuery())
        wanted = [row.id for row in every if any(text.casefold() in each for each in shown(row))]
        assert PLAN.snapshot.machine_ids(found) == wanted

    def test_only_among_those_that_are_asked_for(self) -> None:
        idle = selected(PLAN.snapshot, MachineQuery(states=(State.IDLE,)))

        assert saying(PLAN, idle, "zone-a").tolist() == [
            row for row in idle.tolist() if PLAN.snapshot.profile_of(row).zone == "zone-a"
        ]


class TestMachines:
    @pytest.mark.parametrize(
        ("query", "is_meant"),
        [
            (MachineQuery(), lambda m: True),
            (MachineQuery(states=(State.IDLE,)), lambda m: m.state is State.IDLE),
            (
                MachineQuery(states=(State.IDLE, State.FAILED)),
                lambda m: m.state in {State.IDLE, State.FAILED},
            ),
            (MachineQuery(zone="zone-b"), lambda m: m.profile.zone == "zone-b"),
            (MachineQuery(provider="cloud"), lambda m: source_of(m) == "cloud"),
            (MachineQuery(instance_type="m5.2xlarge"), lambda m: True),
            (MachineQuery(instance_type="p4d"), lambda m: False),
            (MachineQuery(provider="nobody"), lambda m: False),
            (
                MachineQuery(cluster="web"),
                lambda m: m.cluster == WEB or m.state is State.CREATING,
            ),
            (
                MachineQuery(cluster="web", zone="zone-a", states=(State.CONFIGURED,)),
                lambda m: m.cluster == WEB and m.profile.zone == "zone-a",
            ),
            (
                MachineQuery(ids=("x-003", "c-001", "c-001", "none")),
                lambda m: m.id in {"c-001", "x-003"},
            ),
            (MachineQuery(ids=("c-001",), states=(State.IDLE,)), lambda m: False),
            (
                MachineQuery(labels={RACK: "r3", ZONE_KEY: "zone-a"}),
                lambda m: m.profile.attribute(RACK) == "r3" and m.profile.zone == "zone-a",
            ),
            (MachineQuery(capacity_types=("on-demand",)), lambda m: True),
            (MachineQuery(capacity_types=("spot",)), lambda m: False),
        ],
    )
    def test_a_query_finds_all_that_it_means_in_order_of_ids(
        self, query: MachineQuery, is_meant: "object"
    ) -> None:
        assert callable(is_meant)
        found = [row.id for row in rows(PLAN, query)]

        assert found == sorted(m.id for m in fleet() if is_meant(m))

    def test_a_row_tells_what_the_machine_is(self) -> None:
        machine = next(m for m in fleet() if m.id == "i-001")
        row = rows(PLAN, MachineQuery(states=(State.IDLE,)))[1]

        assert (row.id, row.state, row.cluster) == ("i-001", State.IDLE, "")
        assert (row.instance_type, row.zone) == ("m5.2xlarge", "zone-a")
        assert (row.provider, row.capacity_type) == ("metal", "OnDemand")
        assert row.price_per_hour == machine.price_per_hour
        assert row.idle_since_s > 0

    def test_a_machine_that_is_created_for_a_cluster_is_shown_as_the_clusters(self) -> None:
        created = rows(PLAN, MachineQuery(states=(State.CREATING,)))

        assert {row.cluster for row in created} == {"web"}

    def test_a_row_names_the_need_that_claims_it_and_what_the_plan_does(self) -> None:
        acting = [row for row in rows(PLAN, MachineQuery()) if row.action]
        counted = {kind: sum(row.action == kind for row in acting) for kind in
                   {row.action for row in acting}}  # fmt: skip

        assert counted == {str(action): n for action, n in PLAN.actions.counts().items() if n}  # type: ignore[attr-defined]
        bought = [row for row in acting if row.action == "bootstrap"]
        assert {row.need for row in bought} == {short_need().profile.fingerprint}

    def test_there_is_one_chunk_even_of_nothing(self) -> None:
        nothing = selected(PLAN.snapshot, MachineQuery(zone="nowhere"))

        assert list(machine_chunks(PLAN, nothing)) == [()]

    def test_chunks_are_bounded(self) -> None:
        everything = selected(PLAN.snapshot, MachineQuery())
        many = everything.repeat(CHUNK // 100)

        sizes = [len(chunk) for chunk in machine_chunks(PLAN, many)]
        assert sizes == [CHUNK] * (len(many) // CHUNK)

    def test_a_negative_limit_is_refused(self) -> None:
        with pytest.raises(Rejected, match="limit must not be negative: -1"):
            selected(PLAN.snapshot, MachineQuery(limit=-1))


class TestNeeds:
    def test_needs_come_in_the_order_in_which_they_are_served(self) -> None:
        matched, found = need_rows(PLAN, NeedQuery())

        assert matched == 3
        assert [row.priority for row in found] == [100, 50, 10]

    def test_a_served_need_misses_nothing_and_has_no_reason(self) -> None:
        _, (row,) = need_rows(PLAN, NeedQuery(cluster="web"))

        assert (row.missing, row.reason, row.age, row.parked) == ({}, "", 0, False)
        assert (row.asked, row.machines) == ({"cpu": "480"}, 60)

    def test_a_short_need_tells_what_why_and_for_how_long(self) -> None:
        _, found = need_rows(PLAN, NeedQuery(unmet=True))
        row = next(row for row in found if row.fingerprint == short_need().profile.fingerprint)
        told = next(t for t in PLAN.unsatisfied if t.need.ref == short_need().ref)

        assert row.missing == quantities(told.unresolved)
        assert (row.reason, row.age) == (told.reason.value, 1)
        assert row.asks_for == f"{ZONE_KEY}=zone-b"

    def test_only_the_unmet_ones_may_be_asked_for(self) -> None:
        matched, found = need_rows(PLAN, NeedQuery(unmet=True))

        assert matched == 2
        assert {row.cluster for row in found} == {"batch"}

    def test_one_is_found_by_the_beginning_of_its_fingerprint_and_by_its_gang(self) -> None:
        short = short_need().profile.fingerprint
        _, (plain,) = need_rows(PLAN, NeedQuery(cluster="batch", fingerprint=short[:8]))
        _, (gang,) = need_rows(PLAN, NeedQuery(group="train-1"))

        assert (plain.fingerprint, gang.group) == (short, "train-1")
        assert need_rows(PLAN, NeedQuery(fingerprint="no"))[0] == 0

    @pytest.mark.parametrize(
        ("query", "priorities"),
        [
            (NeedQuery(least_priority=50), [100, 50]),
            (NeedQuery(least_priority=101), []),
            (NeedQuery(least_priority=0, cluster="batch"), [50, 10]),
            (NeedQuery(least_priority=-5), [100, 50, 10]),
        ],
    )
    def test_needs_of_a_least_priority_may_be_asked_for(
        self, query: NeedQuery, priorities: list[int]
    ) -> None:
        matched, found = need_rows(PLAN, query)

        assert (matched, [row.priority for row in found]) == (len(priorities), priorities)

    def test_needs_that_are_short_for_one_reason_may_be_asked_for(self) -> None:
        _, unmet = need_rows(PLAN, NeedQuery(unmet=True))
        reasons = {row.reason for row in unmet}
        for reason in reasons:
            assert need_rows(PLAN, NeedQuery(reason=reason))[1] == tuple(
                row for row in unmet if row.reason == reason
            )
        assert reasons
        assert need_rows(PLAN, NeedQuery(reason="no such"))[0] == 0

    def test_a_gang_that_does_not_try_is_parked(self) -> None:
        _, found = need_rows(PLAN, NeedQuery(cluster="batch"))

        assert {row.group: row.parked for row in found} == {"train-1": True, "": False}

    def test_a_limit_cuts_and_the_number_of_all_stays(self) -> None:
        matched, found = need_rows(PLAN, NeedQuery(limit=1))

        assert (matched, len(found)) == (3, 1)

    def test_a_negative_limit_is_refused(self) -> None:
        with pytest.raises(Rejected, match="limit must not be negative"):
            need_rows(PLAN, NeedQuery(limit=-1))


class TestWords:
    def test_what_a_need_asks_for_is_one_line(self) -> None:
        profile = NeedProfile(
            requirements=(
                Requirement("a", Operator.IN, ("1", "2")),
                Requirement("b", Operator.NOT_IN, ("3",)),
                Requirement("c", Operator.EXISTS),
                Requirement("d", Operator.DOES_NOT_EXIST),
                Requirement("e", Operator.SAME),
                Requirement("f", Operator.GT, ("7",)),
            ),
            spread=(Spread(RACK, 1, WhenUnsatisfiable.DO_NOT_SCHEDULE),),
        )

        assert asks_for(profile) == f"a=1|2, b!=3, c, no d, same e, f>7, spread over {RACK}"
        assert asks_for(NeedProfile()) == "any machine"

    def test_amounts_are_written_as_kubernetes_writes_them(self) -> None:
        assert quantities({"memory": 2**20, "cpu": 500, "gpu": 0}) == {
            "cpu": "500m",
            "memory": "1Gi",
        }


class TestClusters:
    def test_machines_and_spend_of_a_cluster_are_those_bound_to_it_or_created_for_it(self) -> None:
        held = holdings(PLAN.snapshot)
        own = [m for m in fleet() if m.cluster == WEB or m.state is State.CREATING]

        assert held.machines[WEB] == {"Creating": 6, "Configured": 60}
        assert held.spend_per_hour[WEB] == sum(m.price_per_hour for m in own)
        assert held.machines[LATE] == {"Configured": 30}

    def test_every_cluster_is_told_that_asks_holds_or_is_connected(self) -> None:
        shard = a_shard()
        told = {row.cluster: row for row in
                cluster_rows(PLAN, shard.sessions(), shard.held_rollups())}  # fmt: skip

        assert list(told) == ["batch", "late", "web"]
        assert (told[WEB].connected, told[WEB].heard, told[WEB].quota) == (True, True, 90)
        assert (told[LATE].connected, told[LATE].heard, told[LATE].limited) == (False, False, False)
        assert (told[BATCH].needs, told[BATCH].unmet, told[BATCH].held_rollups) == (2, 2, 2)

    def test_before_the_first_cycle_the_connected_ones_are_told(self) -> None:
        shard = a_shard()

        (row,) = cluster_rows(None, shard.sessions(), {})

        assert (row.cluster, row.connected, row.heard) == ("web", True, False)


class TestOthers:
    def test_money_is_told_by_state_and_a_slot_costs_nothing(self) -> None:
        spent = spend_by_state(PLAN.snapshot)
        idle = sum(m.price_per_hour for m in fleet() if m.state is State.IDLE)

        assert spent["Idle"] == idle
        assert "Speculative" not in spent

    def test_actions_come_newest_first(self) -> None:
        matched, found = action_rows(a_shard().recent(), ActionQuery())

        assert matched == 2
        assert [row.cycle for row in found] == [13, 12]
        assert (found[1].outcome, found[1].decided, found[1].provider) == ("success", 11, "metal")
        assert (found[0].disposition, found[0].reason, found[0].outcome) == ("capped", "cap", "")

    def test_an_action_says_at_what_time_it_ended(self) -> None:
        _, found = action_rows(a_shard().recent(), ActionQuery())

        assert [row.at_s for row in found] == [NOW_S - 1, NOW_S - 2]

    def test_a_preempt_names_the_need_of_another_cluster_that_it_was_for(self) -> None:
        need = short_need()
        action = Action(ActionKind.PREEMPT, MachineId("c-001"), WEB, need.ref)
        order = Order(action=action, need=None, cycle=1, source="cloud")
        told = Told(NOW_S, Disposed(order=order, disposition=Disposition.EXECUTED))
        _, (row,) = action_rows([told], ActionQuery())

        assert (row.cluster, row.need_cluster) == ("web", need.cluster) == ("web", "batch")
        assert (row.need, row.group) == (need.profile.fingerprint, need.group)

    @pytest.mark.parametrize(
        ("query", "machines"),
        [
            (ActionQuery(cluster="web"), ["i-001"]),
            (ActionQuery(machine="c-009"), ["c-009"]),
            (ActionQuery(disposition="capped"), ["c-009"]),
            (ActionQuery(limit=1), ["c-009"]),
            (ActionQuery(cluster="web", disposition="capped"), []),
        ],
    )
    def test_actions_are_found_by_what_they_are(
        self, query: ActionQuery, machines: list[str]
    ) -> None:
        _, found = action_rows(a_shard().recent(), query)

        assert [row.machine for row in found] == machines

    def test_a_negative_limit_of_actions_is_refused(self) -> None:
        with pytest.raises(Rejected, match="limit must not be negative"):
            action_rows([], ActionQuery(limit=-5))

    def test_a_shortfall_names_what_is_missing_where_and_why(self) -> None:
        found = [shortfall_row(row) for row in shortfalls.rows(PLAN)]
        gang = next(row for row in found if row.fingerprint == gang_need().profile.fingerprint)

        assert (gang.priority, gang.band, gang.clusters) == (50, "1-9", ("batch",))
        assert (gang.missing, gang.reasons) == ({"cpu": "2k"}, ("impossible",))
