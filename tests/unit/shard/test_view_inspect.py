"""InspectNeeds: the header first, the order, and what is told of each need."""

from collections.abc import Sequence

import pytest

from builders import a_need, a_need_profile
from live_shard import BATCH, NOW_S, WEB, a_plan, a_shard, gang_need, plain_need, short_need
from mainstay.engine.doings import DRAINS, doings, with_ref
from mainstay.engine.plan import Unmet, Unsatisfied
from mainstay.model.need import Need
from mainstay.model.questions import InspectedNeed, Inspection, UnmetCode
from mainstay.model.rollup import raw_of
from mainstay.shard.answers.inspect import CANDIDATES_MAX, code_of, inspect
from mainstay.shard.facts import Published
from mainstay.wire.pb.bigfleet.v1alpha1 import shardread_pb2 as pb
from mainstay.wire.shard_read_server import frames


def inspected(*, cluster: str = "", limit: int = 0) -> Inspection:
    return inspect(a_shard().published, cluster, limit)


def of(need: Need) -> InspectedNeed:
    found = {each.fingerprint: each for each in inspected().needs}
    return found[need.profile.fingerprint]


def of_needs(needs: Sequence[Need]) -> Inspection:
    return inspect(Published(cycle=1, at_s=NOW_S, plan=a_plan(needs=needs)), "", 0)


class TestHeader:
    def test_without_a_plan_the_cycle_is_zero_and_no_need_follows(self) -> None:
        sent = list(frames(inspect(None, "", 0)))

        assert [frame.WhichOneof("frame") for frame in sent] == ["header"]
        assert (sent[0].header.cycle, sent[0].header.total_needs) == (0, 0)

    def test_no_demand_is_a_cycle_without_needs(self) -> None:
        told = of_needs([])

        assert (told.cycle, told.total, told.needs) == (1, 0, ())

    def test_the_header_comes_first_and_counts_before_the_limit(self) -> None:
        sent = list(frames(inspected(limit=1)))

        assert [frame.WhichOneof("frame") for frame in sent] == ["header", "need"]
        header = sent[0].header
        assert (header.cycle, header.total_needs) == (12, 3)
        assert header.computed_at_unix_nanos == int(NOW_S * 1e9)

    def test_needs_of_one_cluster_may_be_asked_for(self) -> None:
        told = inspected(cluster="batch", limit=1)

        assert (told.total, len(told.needs)) == (2, 1)
        assert told.needs[0].cluster == "batch"


class TestOrder:
    def test_highest_priority_then_earliest_arrival_then_cluster(self) -> None:
        high = a_need_profile(priority=9)
        low = a_need_profile(priority=1)
        asked = [
            a_need(cluster="b", profile=high, arrival_nanos=2),
            a_need(cluster="a", profile=high, arrival_nanos=2),
            a_need(cluster="c", profile=high, arrival_nanos=1),
            a_need(cluster="a", profile=low, arrival_nanos=0),
        ]
        asked.sort(key=lambda n: (-n.profile.priority, n.arrival_nanos, n.cluster))

        told = of_needs(asked)

        seen = [(n.need.priority, n.arrival_nanos, n.cluster) for n in told.needs]
        assert seen == [(9, 1, "c"), (9, 2, "a"), (9, 2, "b"), (1, 0, "a")]

    def test_gangs_that_were_folded_into_one_row_stand_where_the_first_of_them_came(self) -> None:
        """The engine serves such a row after the others of its priority."""
        same = a_need_profile(priority=9, requirements=gang_need().profile.requirements)
        whole = {"cpu": 8_000}
        gangs = [
            a_need(cluster="b", profile=same, aggregate=whole, min_unit=whole, group=group,
                   arrival_nanos=1)
            for group in ("g1", "g2")
        ]  # fmt: skip
        plain = a_need(cluster="a", profile=a_need_profile(priority=9), arrival_nanos=2)

        told = of_needs([*gangs, plain])

        assert [need.arrival_nanos for need in told.needs] == [1, 2]


class TestServed:
    def test_a_satisfied_need_has_no_reason_no_deficit_no_supply(self) -> None:
        told = of(plain_need())

        assert (told.satisfied, told.reason, told.missing) == (True, UnmetCode.NONE, {})
        assert (told.supply, told.victims, told.candidates) == (None, None, ())
        assert (told.cluster, told.claimed) == (WEB, 60)
        assert told.need == raw_of(plain_need())

    def test_a_served_gang_is_where_its_machines_are(self) -> None:
        small = a_need(
            cluster=BATCH, profile=gang_need().profile, aggregate={"cpu": 16_000},
            min_unit={"cpu": 8_000}, group="g",
        )  # fmt: skip

        (told,) = of_needs([small]).needs

        assert told.satisfied
        assert told.satisfiable
        assert told.domain.startswith("r")
        assert told.bootstraps + told.provisions == told.claimed == 2


class TestShort:
    def test_what_preemption_could_not_finish_tells_its_victims(self) -> None:
        told, plan = of(short_need()), a_plan()
        drained = doings(plan).for_needs(with_ref(plan, [short_need().ref]), DRAINS)

        assert told.reason is UnmetCode.PREEMPTION_EXHAUSTED
        assert told.victims == len(drained) > 0
        assert told.freed["cpu"] == str(8 * len(drained))
        assert (told.bootstraps, told.provisions) == (10, 40)
        assert told.unmet_age == 1

    def test_matching_supply_counts_every_machine_that_fulfils_the_requirements(self) -> None:
        told = of(short_need())

        assert told.supply == (10, 15 + 8, 40)

    def test_a_gang_larger_than_any_domain_is_unsatisfiable_and_tells_the_best_ones(self) -> None:
        told = of(gang_need())

        assert told.reason is UnmetCode.TOPOLOGY_UNSATISFIABLE
        assert (told.satisfied, told.satisfiable, told.parked) == (False, False, True)
        assert len(told.candidates) == CANDIDATES_MAX
        best = [each.per_mille for each in told.candidates]
        assert best == sorted(best, reverse=True)
        assert not any(each.satisfiable for each in told.candidates)
        assert best[0] == (6 + 3 + 4 + 16) * 8 * 1000 // 2000

    @pytest.mark.parametrize("reason", Unmet)
    def test_every_reason_of_ours_has_a_word_of_theirs(self, reason: Unmet) -> None:
        short = Unsatisfied(short_need(), {"cpu": 1}, None, satisfiable=False, parked=False,
                            unresolved={"cpu": 1}, reason=reason)  # fmt: skip

        assert code_of(short) is not UnmetCode.NONE

    def test_the_wire_carries_all_of_it(self) -> None:
        by_cluster = {
            frame.need.profile_fingerprint: frame.need
            for frame in frames(inspected())
            if frame.WhichOneof("frame") == "need"
        }
        view = by_cluster[short_need().profile.fingerprint]

        assert (view.cluster_id, view.satisfied) == ("batch", False)
        assert view.unmet_reason == pb.UNMET_REASON_PREEMPTION_EXHAUSTED
        assert view.residual_deficit.resources["cpu"] == of(short_need()).missing["cpu"]
        assert (view.matching_supply.idle, view.matching_supply.speculative) == (10, 40)
        assert view.preemption.victims_found == of(short_need()).victims
        assert view.arrival_unix_nanos == 3
        served = by_cluster[plain_need().profile.fingerprint]
        assert not served.HasField("matching_supply")
        assert not served.HasField("preemption")
        assert not served.HasField("residual_deficit")
