"""What a shard answers when it is asked, and what it does when it is told."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from live_shard import (
    AT_ONCE,
    NOW_S,
    FakeShard,
    a_plan,
    a_shard,
    a_view,
    fleet,
    gang_need,
    short_need,
)
from mainstay.engine.certificate import Filter
from mainstay.engine.explain import Standing, explain_need
from mainstay.engine.plan import Unmet
from mainstay.model.errors import Rejected, Unavailable, Unknown, UnknownMachine
from mainstay.model.ids import ClusterId
from mainstay.model.need import Operator
from mainstay.model.profile import CapacityType
from mainstay.model.questions import (
    About,
    Addition,
    LiftControlRequest,
    Match,
    PriceChange,
    Question,
    QuotaChange,
    RetireRequest,
    Selection,
    SetControlRequest,
    WhatIfAnswer,
    WhatIfQuery,
    When,
)
from mainstay.model.rollup import RawNeed, RawRequirement
from mainstay.model.state import State
from mainstay.model.views import (
    ClusterQuery,
    ControlQuery,
    MachineQuery,
    MachineRows,
    NeedQuery,
    ProviderQuery,
    ShortfallQuery,
    SummaryQuery,
)
from mainstay.shard.answers.explain import CUT
from mainstay.shard.answers.rows import capacity_type
from mainstay.shard.answers.sentences import REASONS, STANDINGS, STEPS, need_sentences
from mainstay.shard.answers.view import NOT_TRIED, ShardControls, ShardView
from mainstay.shard.answers.when import expected_sentence
from mainstay.shard.restrictions import Stance
from virtual_loop import run

AnswerT = TypeVar("AnswerT")
BATCH_NEED = short_need().profile.fingerprint


async def machines(view: ShardView, query: MachineQuery) -> list[MachineRows]:
    return [chunk async for chunk in view.machines(query)]


class TestRows:
    def test_an_answer_says_whose_it_is_and_which_cycle_it_is_about(self) -> None:
        told = run(a_view(a_shard(cycle=12)).needs(NeedQuery()))

        assert (told.stamp.shard, told.stamp.cycle, told.stamp.at_s) == ("s-0", 12, NOW_S)

    def test_before_the_first_cycle_the_answers_are_empty_and_say_so(self) -> None:
        view = a_view(FakeShard())

        async def asked() -> None:
            (chunk,) = await machines(view, MachineQuery())
            assert (chunk.stamp.cycle, chunk.rows, chunk.matched) == (0, (), 0)
            assert (await view.needs(NeedQuery())).stamp.cycle == 0
            assert (await view.shortfalls(ShortfallQuery())).rows == ()
            assert [row.cluster for row in (await view.clusters(ClusterQuery())).rows] == ["web"]
            summary = await view.summary(SummaryQuery())
            assert (summary.stamp.cycle, summary.machines, summary.connected) == (0, {}, 1)

        run(asked())

    def test_a_limit_cuts_machines_and_the_number_of_all_stays(self) -> None:
        (chunk,) = run(machines(a_view(a_shard()), MachineQuery(limit=5)))

        assert (chunk.matched, len(chunk.rows)) == (300, 5)

    def test_a_machine_that_no_page_shows_is_found_by_what_is_in_it(self) -> None:
        last = max(machine.id for machine in fleet())
        query = MachineQuery(limit=1, text=last.upper())

        (chunk,) = run(machines(a_view(a_shard()), query))

        assert chunk.matched == 1
        assert [row.id for row in chunk.rows] == [last]

    def test_one_cluster_may_be_asked_for(self) -> None:
        told = run(a_view(a_shard()).clusters(ClusterQuery(cluster="late")))

        assert [row.cluster for row in told.rows] == ["late"]

    def test_providers_come_by_name_with_what_ails_them(self) -> None:
        told = run(a_view(a_shard()).providers(ProviderQuery()))

        assert [(row.name, row.health, row.why) for row in told.rows] == [
            ("cloud", "answering", ""),
            ("metal", "lost", "no route"),
        ]

    def test_a_summary_adds_up(self) -> None:
        shard = a_shard()
        shard.stopped = "fenced by epoch 9"
        told = run(a_view(shard).summary(SummaryQuery()))

        assert sum(told.machines.values()) == 300
        assert (told.needs, told.unmet, told.parked, told.clusters) == (3, 2, 1, 2)
        assert (told.queued, told.in_flight, told.actions_per_minute) == (3, 2, 12.0)
        assert (told.epoch, told.not_acting, told.held_rollups) == (7, "fenced by epoch 9", 1)
        assert sum(told.planned.values()) == len(a_plan().actions)
        assert [each.name for each in told.providers] == ["cloud", "metal"]


class TestExplain:
    def explained(self, question: Question) -> tuple[str, str, dict[str, Any]]:
        told = run(a_view(a_shard()).explain(question))
        return told.subject, "\n".join(told.sentences), json.loads(told.document)

    def test_a_short_need_is_told_cause_blocker_holder_miss_and_change(self) -> None:
        question = Question(about=About.NEED, name="batch", fingerprint=BATCH_NEED[:4])
        subject, said, document = self.explained(question)

        assert subject == f"batch/{BATCH_NEED[:8]}"
        assert "It misses cpu 436 (preemption exhausted)" in said
        assert "What blocks it: topology.kubernetes.io/zone=zone-b." in said
        assert "held: 15 by web/" in said
        assert "The nearest miss is machine c-000: held by web/" in said
        assert "The smallest change that admits it: ask for" in said
        assert "When: never as things are, because nothing that is on its way would do" in said
        assert document["verdict"] == "preemption exhausted"
        assert document["missing"] == {"cpu": "436"}

    def test_every_answer_says_when_in_words_and_as_data(self) -> None:
        for about, name in (About.NEED, "web"), (About.MACHINE, "n-000"), (About.CLUSTER, "batch"):
            told = run(a_view(a_shard()).explain(Question(about=about, name=name, quick=True)))
            assert told.expected.when is not When.UNSPECIFIED
            assert told.sentences[-1] == expected_sentence(told.expected)

    def test_what_patience_left_out_is_said(self) -> None:
        question = Question(about=About.NEED, name="batch", fingerprint=BATCH_NEED, patience_s=1e-9)
        _, said, document = self.explained(question)

        assert f"3 more ways to change it were {CUT}" in said
        (found,) = document["relaxations"]
        _, patient, whole = self.explained(replace(question, patience_s=60.0))
        assert CUT not in patient
        kinds = [each["change"]["kind"] for each in whole["relaxations"]]
        assert found["change"]["kind"] in kinds
        assert len(whole["relaxations"]) > 1

    def test_a_quick_answer_leaves_out_the_changes(self) -> None:
        question = Question(about=About.NEED, name="batch", fingerprint=BATCH_NEED, quick=True)
        _, said, document = self.explained(question)

        assert "smallest change" not in said
        assert document["relaxations"] == []

    def test_a_gang_is_named_by_its_group(self) -> None:
        subject, said, _ = self.explained(
            Question(about=About.GANG, name="batch", group="train-1", quick=True)
        )

        assert subject.endswith("/train-1")
        assert said.startswith("The gang batch/")
        assert "impossible" in said

    def test_a_served_need_has_all_it_asks_for(self) -> None:
        _, said, _ = self.explained(Question(about=About.NEED, name="web"))

        assert "60 configured" in said
        assert "It has all it asks for.\nWhen: now" in said

    @pytest.mark.parametrize(
        ("machine", "says"),
        [
            ("c-001", "It serves the need that claims it and stays."),
            ("d-003", "silence is not zero"),
            ("i-000", "It is being acquired"),
            ("x-000", "mainstay retire"),
        ],
    )
    def test_a_machine_is_told_where_it_stands(self, machine: str, says: str) -> None:
        subject, said, document = self.explained(Question(about=About.MACHINE, name=machine))

        assert subject == document["machine"] == machine
        assert says in said

    def test_a_cluster_is_told_what_it_asks_holds_and_may_hold(self) -> None:
        _, said, _ = self.explained(Question(about=About.CLUSTER, name="web"))

        assert "Cluster web has 1 need, 1 of which misses nothing." in said
        assert "Of 60 machines for what it asks: 60 serving, 0 coming." in said
        assert "6 Creating, 60 Configured" in said
        assert "of 90 machines that it may hold" in said

    def test_a_cluster_that_is_short_names_its_first_need(self) -> None:
        _, said, _ = self.explained(Question(about=About.CLUSTER, name="batch"))

        assert "1 need is impossible" in said
        assert f"The first that is short: batch/{gang_need().profile.fingerprint[:8]}" in said

    @pytest.mark.parametrize(
        ("question", "kind", "says"),
        [
            (Question(about=About.NEED, name="batch"), Rejected, "2 needs of batch could be meant"),
            (Question(about=About.NEED, name="nobody"), Rejected, "has no needs here"),
            (
                Question(about=About.NEED, name="batch", fingerprint="zz"),
                Rejected,
                "cluster batch has no need zz",
            ),
            (Question(about=About.GANG, name="batch"), Rejected, "named by its group"),
            (Question(about=About.MACHINE, name="m-9"), UnknownMachine, "no machine m-9"),
            (Question(about=About.MACHINE, name="a b"), Rejected, "not a machine id"),
            (Question(about=About.CLUSTER, name="nobody"), Rejected, "no cluster nobody"),
            (Question(about=About.UNSPECIFIED, name="x"), Rejected, "nothing was asked about"),
        ],
    )
    def test_a_question_that_means_nothing_is_told_what_to_ask(
        self, question: Question, kind: type[Exception], says: str
    ) -> None:
        with pytest.raises(kind, match=says):
            self.explained(question)

    def test_before_the_first_cycle_there_is_nothing_to_explain(self) -> None:
        with pytest.raises(Unavailable, match="first cycle"):
            run(a_view(FakeShard()).explain(Question(about=About.NEED, name="web")))

    def test_every_reason_step_and_standing_has_words(self) -> None:
        assert {reason.value for reason in Unmet} <= REASONS.keys()
        assert {each.value for each in Filter} - {"requirement"} <= STEPS.keys()
        assert set(Standing) == STANDINGS.keys()

    def test_the_sentences_are_the_certificates(self) -> None:
        told = explain_need(a_plan(), short_need().ref)

        said = need_sentences(told)

        step = told.funnel[told.blocking or 0]
        assert any(f"Behind it {step.left:,} of 300 machines" in line for line in said)
        assert any(f"{told.holders[0].count} by " in line for line in said)


class TestDeadline:
    def test_a_question_that_takes_too_long_is_given_up_with_advice(self) -> None:
        class Slow:
            async def __call__(self, work: Callable[[], AnswerT], /) -> AnswerT:
                await asyncio.sleep(60)
                return work()

        view = ShardView(a_shard(), Slow(), deadline_s=2.0)

        with pytest.raises(Unavailable, match=r"no answer within 2 s"):
            run(view.explain(Question(about=About.MACHINE, name="c-001")))

    def test_a_need_is_explained_without_changes_when_those_take_too_long(self) -> None:
        class SlowAtFirst:
            def __init__(self) -> None:
                self.asked = 0

            async def __call__(self, work: Callable[[], AnswerT], /) -> AnswerT:
                self.asked += 1
                await asyncio.sleep(60 if self.asked == 1 else 0)
                return work()

        view = ShardView(a_shard(), SlowAtFirst(), deadline_s=2.0)
        told = run(view.explain(Question(about=About.NEED, name="batch", fingerprint=BATCH_NEED)))

        assert told.sentences[-1] == NOT_TRIED
        assert any(line.startswith("The nearest miss") for line in told.sentences)
        assert json.loads(told.document)["relaxations"] == []

    def test_only_a_few_run_at_a_time(self) -> None:
        running, most = 0, 0

        class Counting:
            async def __call__(self, work: Callable[[], AnswerT], /) -> AnswerT:
                nonlocal running, most
                running += 1
                most = max(most, running)
                await asyncio.sleep(1)
                running -= 1
                return work()

        view = ShardView(a_shard(), Counting(), deadline_s=60.0)

        async def six() -> None:
            question = Question(about=About.MACHINE, name="c-001")
            async with asyncio.TaskGroup() as group:
                for _ in range(6):
                    group.create_task(view.explain(question))

        run(six())
        assert most == 2

    def test_what_is_given_up_has_its_place_until_its_thread_ends(self) -> None:
        running, most = 0, 0

        class Threads:
            async def __call__(self, work: Callable[[], AnswerT], /) -> AnswerT:
                nonlocal running, most
                running += 1
                most = max(most, running)
                answer = asyncio.get_running_loop().create_future()
                asyncio.get_running_loop().call_later(60, self.end, answer)
                await answer
                return work()

            def end(self, answer: asyncio.Future[None]) -> None:
                nonlocal running
                running -= 1
                if not answer.done():
                    answer.set_result(None)

        view = ShardView(a_shard(), Threads(), deadline_s=2.0)
        question = Question(about=About.MACHINE, name="c-001")

        async def six() -> None:
            for _ in range(6):
                with pytest.raises(Unavailable, match="no answer within 2 s"):
                    await view.explain(question)
            await asyncio.sleep(60)
            patient = ShardView(a_shard(), Threads(), deadline_s=61.0)
            assert (await patient.explain(question)).sentences

        run(six())
        assert most == 2


class TestWhatIf:
    def told(self, query: WhatIfQuery) -> WhatIfAnswer:
        return run(a_view(a_shard()).what_if(query))

    def test_a_lost_zone_costs_machines_and_needs(self) -> None:
        told = self.told(WhatIfQuery(lost_zones=("zone-b",)))

        assert told.cost_after < told.cost_before
        assert told.moved_count == 1
        assert told.moved[0].fingerprint == BATCH_NEED
        assert told.moved[0].after == {"cpu": "900"}
        assert told.actions_before != told.actions_after

    def test_a_price_changes_what_all_of_it_costs(self) -> None:
        everything = Selection(capacity_types=("on_demand",))
        told = self.told(WhatIfQuery(prices=(PriceChange(selection=everything, factor=2.0),)))

        assert told.cost_after == pytest.approx(2 * told.cost_before)
        assert told.moved == told.satisfied == told.unsatisfied == ()

    def test_more_demand_is_judged_like_a_roll_up(self) -> None:
        need = RawNeed(aggregate_resources={"cpu": "80"}, min_unit={"cpu": "8"}, priority=200)
        told = self.told(WhatIfQuery(additions=(Addition(cluster="web", need=need),)))

        assert sum(told.actions_after.values()) > sum(told.actions_before.values())
        wrong = RawNeed(aggregate_resources={"cpu": "much"})
        with pytest.raises(Rejected, match="much"):
            self.told(WhatIfQuery(additions=(Addition(cluster="web", need=wrong),)))

    def test_a_lost_rack_is_every_machine_of_it(self) -> None:
        rack = Selection(matches=(Match(key="topology.bigfleet/rack", values=("r1",)),))
        told = self.told(WhatIfQuery(lost=(rack,)))

        assert told.cost_after != told.cost_before

    def test_a_quota_takes_effect(self) -> None:
        asked = RawNeed(
            requirements=(RawRequirement("topology.kubernetes.io/zone", Operator.IN, ("zone-a",)),),
            aggregate_resources={"cpu": "400"},
            min_unit={"cpu": "8"},
            priority=90,
        )
        more = Addition(cluster="web", need=asked)
        tight = QuotaChange(cluster="web", held=60)
        free = QuotaChange(cluster="web")

        held = self.told(WhatIfQuery(additions=(more,), quotas=(tight,)))
        let = self.told(WhatIfQuery(additions=(more,), quotas=(free,)))

        assert held.unsatisfied_count == 1
        assert let.unsatisfied_count == 0

    @pytest.mark.parametrize(
        ("query", "says"),
        [
            (WhatIfQuery(), "nothing would change"),
            (WhatIfQuery(lost_zones=("zone-z",)), "no machine has topology.kubernetes.io/zone IN"),
            (WhatIfQuery(quotas=(QuotaChange(held=1),)), "name one of them"),
            (
                WhatIfQuery(quotas=(QuotaChange(cluster="a", provider="b", held=1),)),
                "name one of them",
            ),
            (WhatIfQuery(quotas=(QuotaChange(cluster="a", held=-1),)), "must not be negative"),
            (
                WhatIfQuery(lost=(Selection(capacity_types=("cheap",)),)),
                "not a capacity type: 'cheap'",
            ),
        ],
    )
    def test_a_change_that_cannot_be_is_refused(self, query: WhatIfQuery, says: str) -> None:
        with pytest.raises(Rejected, match=says):
            self.told(query)

    @pytest.mark.parametrize("text", ["on_demand", "OnDemand", "on-demand", "ONDEMAND"])
    def test_a_capacity_type_is_known_however_it_is_written(self, text: str) -> None:
        assert capacity_type(text) is CapacityType.ON_DEMAND

    def test_machines_of_a_provider_or_a_state_may_be_lost(self) -> None:
        cloud = Selection(providers=("cloud",), states=(State.SPECULATIVE,))
        told = self.told(WhatIfQuery(lost=(cloud,)))

        assert "provision" not in told.actions_after
        assert told.actions_after["bootstrap"] == told.actions_before["bootstrap"]


class TestControls:
    def test_a_control_is_set_shown_and_lifted(self) -> None:
        shard = a_shard()
        controls, view = ShardControls(shard), a_view(shard)

        async def told() -> None:
            request = SetControlRequest(kind="pause", cluster="web", reason="r", for_s=60, by="me")
            row = await controls.set_control(request)
            assert (row.kind, row.cluster, row.expires_at_s) == ("pause", "web", NOW_S + 60)
            assert (await view.controls(ControlQuery())).rows == (row,)
            lift = LiftControlRequest(kind="pause", cluster="web", reason="over", by="me")
            assert await controls.lift_control(lift) == row
            assert (await view.controls(ControlQuery())).rows == ()

        run(told())

    def test_the_whole_shard_is_meant_where_no_cluster_is_named(self) -> None:
        shard = a_shard()
        request = SetControlRequest(kind="shadow", reason="r", for_s=60, by="me")
        run(ShardControls(shard).set_control(request))

        assert [control.cluster for control in shard.set_controls] == [None]

    @pytest.mark.parametrize("known", ["web", "batch", "late"])
    def test_a_cluster_is_known_by_its_session_its_needs_or_its_machines(self, known: str) -> None:
        shard = a_shard()
        pause = SetControlRequest(kind="pause", cluster=known, reason="r", for_s=60, by="me")

        assert run(ShardControls(shard).set_control(pause)).cluster == known

    def test_a_cluster_of_which_nothing_is_known_is_refused_unless_it_is_meant(self) -> None:
        shard = a_shard()
        pause = SetControlRequest(kind="pause", cluster="wbe", reason="r", for_s=60, by="me")

        with pytest.raises(
            Unknown, match=r"no cluster wbe is known here \(known: batch, late, web"
        ):
            run(ShardControls(shard).set_control(pause))
        assert shard.set_controls == []
        meant = replace(pause, even_if_unknown=True)
        assert run(ShardControls(shard).set_control(meant)).cluster == "wbe"

    def test_of_many_known_clusters_some_are_named(self) -> None:
        shard = a_shard()
        shard.connected = [ClusterId(f"c-{number:02}") for number in range(20)]
        pause = SetControlRequest(kind="pause", cluster="wbe", reason="r", for_s=60, by="me")

        with pytest.raises(Unknown, match=r"known: batch, c-00, .*c-08 and 13 more\)"):
            run(ShardControls(shard).set_control(pause))

    def test_before_the_first_cycle_nobody_is_known_and_nobody_is_refused(self) -> None:
        shard = FakeShard()
        pause = SetControlRequest(kind="pause", cluster="wbe", reason="r", for_s=60, by="me")

        assert run(ShardControls(shard).set_control(pause)).cluster == "wbe"

    def test_what_the_configuration_holds_back_is_among_the_controls_and_has_no_end(self) -> None:
        shard = a_shard()
        shard.stance = Stance.SHADOW
        (row,) = run(a_view(shard).controls(ControlQuery())).rows
        summary = run(a_view(shard).summary(SummaryQuery()))

        assert (row.kind, row.cluster, row.by, row.fixed) == ("shadow", "", "configuration", True)
        assert (row.reason, row.expires_at_s) == ("dry_run is set", 0.0)
        assert (summary.resting, summary.controls) == ((row,), 1)

    @pytest.mark.parametrize(
        ("changes", "says"),
        [
            ({"kind": "stop"}, "no such control: 'stop'"),
            ({"reason": " "}, "needs a reason"),
            ({"for_s": 0.0}, "lasts more than 0"),
            ({"by": ""}, "needs a name"),
            ({"cluster": "a b"}, "not a cluster id"),
            ({"kind": "reclaim_cap", "value": 7.0}, "a share above 0 and at most 1"),
        ],
    )
    def test_a_control_without_reason_end_or_sense_is_refused(
        self, changes: dict[str, object], says: str
    ) -> None:
        given = {"kind": "pause", "reason": "r", "for_s": 60.0, "by": "me", **changes}
        request = SetControlRequest(**given)  # type: ignore[arg-type]  # as a row of the table

        with pytest.raises(Rejected, match=says):
            run(ShardControls(a_shard()).set_control(request))

    def test_a_failed_machine_is_retired_with_reason_and_name(self) -> None:
        shard = a_shard()
        told = run(
            ShardControls(shard).retire(RetireRequest(machine="x-000", reason="dead", by="me"))
        )

        assert (told.machine, told.last_error) == ("x-000", "create timed out")
        assert shard.retired == [("x-000", "dead", "me")]

    @pytest.mark.parametrize(("reason", "by"), [("", "me"), ("dead", " ")])
    def test_nothing_is_retired_without_reason_and_name(self, reason: str, by: str) -> None:
        shard = a_shard()
        with pytest.raises(Rejected, match="retiring a machine needs a"):
            run(ShardControls(shard).retire(RetireRequest(machine="x-0", reason=reason, by=by)))

        assert shard.retired == []


def test_aside_is_used_for_everything_that_walks_a_plan() -> None:
    used: list[str] = []

    class Noting:
        async def __call__(self, work: Callable[[], AnswerT], /) -> AnswerT:
            used.append("aside")
            return await AT_ONCE(work)

    view = ShardView(a_shard(), Noting())

    async def asked() -> None:
        for question in (
            view.needs(NeedQuery()), view.clusters(ClusterQuery()), view.inspect("", 0),
            view.shortfalls(ShortfallQuery()), view.summary(SummaryQuery()),
        ):  # fmt: skip
            before = len(used)
            await question
            assert len(used) == before + 1

    run(asked())
