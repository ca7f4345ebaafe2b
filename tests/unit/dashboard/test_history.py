"""What the last half hour was like: bounded, honest about gaps, drawn with its numbers."""

import asyncio
import re

from dashboards import FakeShard, Visitor
from mainstay.dashboard.draw_lines import history_part
from mainstay.dashboard.history import EVERY_S, MEASURES, TICKS_MAX, History, recording
from mainstay.dashboard.told import Told
from mainstay.model import views as v
from mainstay.model.errors import Unavailable


def summary(shard: str, *, serving: int, spend: float = 1.0, cycle_s: float = 0.01) -> v.Summary:
    return v.Summary(
        stamp=v.Stamp(shard=shard), machines={"Configured": serving, "Idle": 1},
        spend_per_hour={"Configured": spend}, unmet=2, seconds={"total": cycle_s, "cover": 9.0},
    )  # fmt: skip


def told(shard: str, *, serving: int = 0, stale: bool = False) -> Told[v.Summary]:
    said = summary(shard, serving=serving, cycle_s=0.01 * serving)
    return Told(source=shard, value=said, error="gone" if stale else "")


def values(history: History, name: str, shard: str = "") -> list[float | None]:
    (line,) = [each for each in history.lines(shard) if each.measure.name == name]
    return list(line.values)


def test_it_keeps_half_an_hour_and_no_more() -> None:
    history = History()
    for tick in range(TICKS_MAX + 50):
        history.record([told("a", serving=tick)], tick * EVERY_S)
    assert len(history) == TICKS_MAX == 360
    assert values(history, "Serving")[0] == 50
    assert history.lines()[0].at_s[0] == 50 * EVERY_S


def test_shards_are_summed_and_the_slowest_cycle_counts() -> None:
    history = History()
    history.record([told("a", serving=3), told("b", serving=4)], 0.0)
    assert (values(history, "Serving"), values(history, "Cycle time")) == ([7], [40.0])
    assert values(history, "Serving", "b") == [4]
    assert values(history, "Needs short") == [4]


def test_what_is_stale_is_a_gap_and_never_a_dip() -> None:
    history = History()
    history.record([told("a", serving=3), told("b", serving=4)], 0.0)
    history.record([told("a", serving=3), told("b", serving=4, stale=True)], 5.0)
    history.record([], 10.0)
    history.record([told("a", serving=5), told("b", serving=4)], 15.0)
    assert values(history, "Serving") == [7, None, None, 9]
    assert values(history, "Serving", "a") == [3, 3, None, 5]
    drawn = history_part(history.lines()).text
    assert drawn.count("<polyline") == 2 * len(MEASURES)


def test_each_line_says_now_least_and_most_and_since_when() -> None:
    history = History()
    for at, serving in enumerate((5, 2, 9, 4)):
        history.record([told("a", serving=serving)], 3_600.0 + at * EVERY_S)
    text = history_part(history.lines()).text
    assert "<title>Serving since 01:00:00 UTC: now 4, least 2, most 9</title>" in text
    assert "Recorded by this page since 01:00:00 UTC (15 s)" in text
    (points,) = re.findall(r'Serving since.*?points="([^"]+)"', text)
    assert points == "0,27.0 120,45.0 240,3.0 360,33.0"


def test_a_machine_that_slept_leaves_a_gap() -> None:
    history = History()
    for at_s in (0.0, 5.0, 600.0, 605.0):
        history.record([told("a", serving=1)], at_s)
    assert history_part(history.lines()).text.count("<polyline") == 2 * len(MEASURES)


def test_before_the_first_moment_it_says_that_nothing_is_recorded() -> None:
    assert "Nothing is recorded yet." in Visitor(FakeShard("shard-a")).sign_in().get("/").text


def test_it_is_on_the_overview_and_on_the_page_of_a_shard() -> None:
    shard = FakeShard("shard-a", count=12)
    visitor = Visitor(shard).sign_in()
    visitor.parts.history.record(asyncio.run(visitor.parts.asking().summaries()), 1_000.0)
    for path in ("/", "/shards/shard-a"):
        text = visitor.get(path).text
        assert "<title>Idle since 00:16:40 UTC: now 12, least 12, most 12</title>" in text


def test_recording_asks_each_shard_for_one_summary_and_survives_that_nobody_can_be_asked() -> None:
    shard = FakeShard("shard-a")
    visitor, asked = Visitor(shard), list[int]()

    async def summaries() -> list[Told[v.Summary]]:
        asked.append(1)
        if len(asked) == 1:
            return await visitor.parts.asking().summaries()
        raise Unavailable("nobody can be asked")

    async def once() -> None:
        recorded = asyncio.Event()

        def now_s() -> float:
            recorded.set()
            return 7.0

        async with asyncio.TaskGroup() as group:
            task = group.create_task(recording(visitor.parts.history, summaries, now_s))
            await recorded.wait()
            task.cancel()

    asyncio.run(once())
    assert [type(query) for query in shard.asked] == [v.SummaryQuery]
    asyncio.run(once())
    assert values(visitor.parts.history, "Idle") == [3, None]
