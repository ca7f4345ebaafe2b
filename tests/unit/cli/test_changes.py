"""The changes of a what-if, as people write them."""

import pytest

from mainstay.cli.changes import addition, price, quota, rack, selection
from mainstay.cli.words import age, counts, lasts_s, percent, state_named
from mainstay.model.errors import Rejected
from mainstay.model.need import Operator
from mainstay.model.profile import INSTANCE_TYPE_KEY, ZONE_KEY
from mainstay.model.questions import Match, QuotaChange, Selection
from mainstay.model.rollup import RawRequirement
from mainstay.model.state import State


class TestPrices:
    def test_what_comes_last_is_the_factor(self) -> None:
        change = price("capacity=spot,zone=z1=1.5")

        assert change.factor == 1.5
        assert change.selection == Selection(
            matches=(Match(key=ZONE_KEY, values=("z1",)),), capacity_types=("spot",)
        )

    def test_a_star_is_every_machine(self) -> None:
        assert price("*=2").selection == Selection()

    @pytest.mark.parametrize("text", ["2", "type=p4d", "type=p4d=", "type=p4d=-1", "*=inf", "=2"])
    def test_what_is_no_price_change_is_refused(self, text: str) -> None:
        with pytest.raises(Rejected, match=r"write|SELECTOR"):
            price(text)


class TestSelections:
    def test_short_names_stand_for_keys_and_any_label_goes(self) -> None:
        found = selection("type=m5,my/label=x,state=idle,provider=aws")

        assert found.matches == (
            Match(key=INSTANCE_TYPE_KEY, values=("m5",)),
            Match(key="my/label", values=("x",)),
        )
        assert (found.states, found.providers) == ((State.IDLE,), ("aws",))

    def test_a_rack_is_a_label(self) -> None:
        assert rack("r1").matches == (Match(key="topology.bigfleet/rack", values=("r1",)),)
        assert rack("pod=7").matches == (Match(key="pod", values=("7",)),)


class TestAdditions:
    def test_everything_that_a_need_can_ask(self) -> None:
        asked = addition(
            "web:cpu=64,nvidia.com/gpu=8,unit.cpu=8,where.zone=z1,same=rack,priority=-5"
        )

        assert asked.cluster == "web"
        assert asked.need.aggregate_resources == {"cpu": "64", "nvidia.com/gpu": "8"}
        assert asked.need.min_unit == {"cpu": "8"}
        assert asked.need.priority == -5
        assert asked.need.requirements == (
            RawRequirement(ZONE_KEY, Operator.IN, ("z1",)),
            RawRequirement("topology.bigfleet/rack", Operator.SAME),
        )

    @pytest.mark.parametrize(
        "text", ["web", "web:", ":cpu=1", "web:cpu", "web:cpu=", "web:priority=1", "web:cpu=1,,"]
    )
    def test_what_is_no_addition_is_refused(self, text: str) -> None:
        with pytest.raises(Rejected, match="write"):
            addition(text)

    def test_a_priority_is_a_whole_number(self) -> None:
        with pytest.raises(Rejected, match="not a priority: 'high'"):
            addition("web:cpu=1,priority=high")


class TestQuotas:
    @pytest.mark.parametrize(
        ("text", "change"),
        [
            ("web=5", QuotaChange(cluster="web", held=5)),
            ("web=any", QuotaChange(cluster="web")),
            ("aws/us-east-1=7", QuotaChange(provider="aws", region="us-east-1", held=7)),
            ("aws/=7", QuotaChange(provider="aws", held=7)),
        ],
    )
    def test_a_quota_is_of_a_cluster_or_of_a_provider_and_a_region(
        self, text: str, change: QuotaChange
    ) -> None:
        assert quota(text) == change

    @pytest.mark.parametrize("text", ["web", "=5", "web=many"])
    def test_what_is_no_quota_is_refused(self, text: str) -> None:
        with pytest.raises(Rejected, match="not a quota"):
            quota(text)


class TestWords:
    @pytest.mark.parametrize(
        ("text", "seconds"),
        [("90s", 90), ("30m", 1800), ("2h", 7200), ("1d", 86400), ("1.5h", 5400)],
    )
    def test_a_time_is_a_number_with_a_unit(self, text: str, seconds: float) -> None:
        assert lasts_s(text) == seconds

    @pytest.mark.parametrize("text", ["", "5", "1w", "-3m", "1h30m"])
    def test_what_is_no_time_is_refused(self, text: str) -> None:
        with pytest.raises(Rejected, match="not a time"):
            lasts_s(text)

    @pytest.mark.parametrize(
        ("seconds", "text"),
        [(0, "0s"), (119, "119s"), (120, "2m"), (7200, "2h"), (172800, "2d"), (-5, "0s")],
    )
    def test_an_age_is_told_in_one_unit(self, seconds: float, text: str) -> None:
        assert age(seconds) == text

    def test_states_are_counted_in_the_order_of_a_life(self) -> None:
        assert counts({"Failed": 1, "Idle": 2, "Speculative": 3}) == "Speculative=3,Idle=2,Failed=1"

    def test_a_state_is_known_in_any_case(self) -> None:
        assert state_named("configured") is State.CONFIGURED
        with pytest.raises(Rejected, match=r"no such state: 'unspecified' \(one of Speculative"):
            state_named("unspecified")

    def test_a_change_is_told_in_percent_unless_there_was_nothing(self) -> None:
        assert percent(200.0, 150.0) == " (-25.0%)"
        assert percent(0.0, 5.0) == ""
