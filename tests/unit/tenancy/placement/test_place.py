"""Placement: the node and slots a request gets, or the truthful reason why it gets none."""

from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import outside
from mainstay.model.errors import Rejected
from mainstay.tenancy.placement.place import Alternative, Placement, Reason, Refusal, place
from mainstay.tenancy.placement.shape import Ask, CapacityShape, NodeView, Sku, Slot, SlotState

SLICE = Sku("h200-sxm-slice", CapacityShape.GPU_SLICE, (1, 2, 4, 8))
METAL = Sku("h200-sxm-baremetal-8g", CapacityShape.BAREMETAL, (8,))
CATALOGUE = {sku.name: sku for sku in (SLICE, METAL)}
STATES = {".": SlotState.FREE, "x": SlotState.USED, "!": SlotState.UNFIT}


def a_node(slots: str, name: str = "node-1", **fields: object) -> NodeView:
    """`.` free, `x` used, `!` unfit; `|` begins the next NUMA node."""
    parts = [Slot(STATES[sign], numa) for numa, half in enumerate(slots.split("|"))
             for sign in half]  # fmt: skip
    values = {"region": "eu", "skus": frozenset(CATALOGUE), **fields}
    return NodeView(id=name, slots=tuple(parts), **values)  # type: ignore[arg-type]


def asked(gpus: int, nodes: Sequence[NodeView], sku: Sku = SLICE) -> Placement | Refusal:
    return place(Ask(sku.name, gpus, "eu"), CATALOGUE, nodes)


def placed(gpus: int, nodes: Sequence[NodeView], sku: Sku = SLICE) -> Placement:
    got = asked(gpus, nodes, sku)
    assert isinstance(got, Placement), got
    return got


def refused(gpus: int, nodes: Sequence[NodeView], sku: Sku = SLICE) -> Refusal:
    got = asked(gpus, nodes, sku)
    assert isinstance(got, Refusal), got
    return got


class TestSlices:
    def test_a_slice_lies_on_one_numa_node(self) -> None:
        got = placed(2, [a_node("....|....")])

        assert (got.node, got.slots, got.numa_nodes) == ("node-1", (0, 1), 1)

    def test_a_node_that_fits_in_one_numa_node_comes_first(self) -> None:
        a, b = a_node("..xx|..xx", "a", partitioned=False), a_node("....|xxxx", "b")

        assert placed(4, [a, b]).node == "b"

    def test_of_nodes_that_fit_alike_the_one_with_less_left_over_is_taken(self) -> None:
        c, d = a_node("..xx|xxxx", "d-with-2"), a_node("..xx|....", "c-with-6")

        assert placed(2, [d, c]).node == "d-with-2"

    def test_equal_nodes_are_taken_by_id(self) -> None:
        assert placed(1, [a_node("..", "b"), a_node("..", "a")]).node == "a"

    def test_the_largest_block_is_kept_in_one_piece(self) -> None:
        whole, broken = a_node("....|....", "a"), a_node("x...|....", "b")

        assert placed(1, [whole, broken]) == Placement("b", CapacityShape.GPU_SLICE, (1,), 1)
        assert placed(2, [whole, broken]).slots == (2, 3)
        assert placed(4, [whole, broken]).node == "b"
        assert placed(8, [whole, broken]).node == "a"

    def test_a_partition_never_crosses_its_lines(self) -> None:
        refusal = refused(2, [a_node("x..x|x..x")])

        assert (refusal.reason, refusal.largest_free_block) == (Reason.NO_ROOM, 1)

    def test_without_nvswitch_any_slots_of_the_node_will_do(self) -> None:
        got = placed(4, [a_node("x..x|x..x", partitioned=False)])

        assert (got.slots, got.numa_nodes) == ((1, 2, 5, 6), 2)

    def test_without_nvswitch_the_tightest_numa_node_is_taken(self) -> None:
        assert placed(2, [a_node("....|x..x", partitioned=False)]).slots == (5, 6)

    def test_without_nvswitch_as_few_numa_nodes_as_can_be_are_touched(self) -> None:
        got = placed(4, [a_node(".x|...|..", partitioned=False)])

        assert (got.slots, got.numa_nodes) == ((2, 3, 4, 5), 2)

    def test_a_slice_needs_its_cpu_and_memory(self) -> None:
        sku = Sku("s", CapacityShape.GPU_SLICE, (1, 2), 24_000, 65_536)
        poor = a_node("..", "poor", skus=frozenset("s"), cpu_milli=47_999, memory_mib=131_072)
        rich = a_node("..", "rich", skus=frozenset("s"), cpu_milli=48_000, memory_mib=131_072)

        got = place(Ask("s", 2, "eu"), {"s": sku}, [poor, rich])

        assert isinstance(got, Placement)
        assert got.node == "rich"
        assert isinstance(place(Ask("s", 2, "eu"), {"s": sku}, [poor]), Refusal)


class TestWholeNodes:
    def test_a_whole_node_is_taken_without_slots(self) -> None:
        got = placed(8, [a_node("....|....")], METAL)

        assert (got.node, got.shape, got.slots) == ("node-1", CapacityShape.BAREMETAL, ())

    @pytest.mark.parametrize("slots", ["x...|....", "....|...!"])
    def test_a_node_of_which_a_part_is_gone_is_no_whole_node(self, slots: str) -> None:
        assert isinstance(asked(8, [a_node(slots)], METAL), Refusal)

    def test_a_smaller_node_is_not_the_node_that_was_asked_for(self) -> None:
        assert isinstance(asked(8, [a_node("....")], METAL), Refusal)

    def test_no_slice_is_cut_from_a_node_that_somebody_has_whole(self) -> None:
        assert refused(1, [a_node("....|....", claimed=True)]).reason is Reason.REGION
        assert isinstance(asked(8, [a_node("....|....", claimed=True)], METAL), Refusal)


class TestRefusals:
    def test_every_refusal_has_the_one_code_and_says_why_in_its_details(self) -> None:
        refusal = refused(4, [a_node("..xx"), a_node("..xx", "node-2")])

        assert refusal.code == "sku_unavailable"
        assert refusal.details == {
            "reason": "no_single_node_fit", "sku": "h200-sxm-slice", "gpus": 4, "region": "eu",
            "largest_free_block": 2,
            "nearest_alternative": {"sku": "h200-sxm-slice", "gpus": 2, "region": "eu"},
        }  # fmt: skip

    def test_a_count_that_is_not_sold_is_refused_with_the_nearest_that_is(self) -> None:
        refusal = refused(3, [a_node("....|....")])

        assert refusal.reason is Reason.COUNT
        assert refusal.alternative == Alternative("h200-sxm-slice", 4, "eu")

    def test_an_unknown_sku_is_refused_with_the_one_most_like_it(self) -> None:
        refusal = place(Ask("h200-sxm-slize", 2, "eu"), CATALOGUE, [a_node("....|....")])

        assert isinstance(refusal, Refusal)
        assert (refusal.reason, refusal.largest_free_block) == (Reason.UNKNOWN, 8)
        assert refusal.alternative == Alternative("h200-sxm-slice", 2, "eu")

    def test_the_wrong_shape_is_refused_with_a_sku_that_has_it(self) -> None:
        ask = Ask(METAL.name, 8, "eu", CapacityShape.GPU_SLICE)

        refusal = place(ask, CATALOGUE, [a_node("....|....")])

        assert isinstance(refusal, Refusal)
        assert refusal.reason is Reason.SHAPE
        assert refusal.alternative == Alternative("h200-sxm-slice", 8, "eu")

    def test_a_region_with_nothing_free_is_told_from_one_with_too_little(self) -> None:
        elsewhere = a_node("....|....", "far", region="us")

        refusal = refused(4, [a_node("xxxx|xxxx"), elsewhere])

        assert (refusal.reason, refusal.largest_free_block) == (Reason.REGION, 0)
        assert refusal.alternative == Alternative("h200-sxm-slice", 4, "us")

    def test_as_many_gpus_elsewhere_come_before_fewer_here(self) -> None:
        elsewhere = a_node("....|....", "far", region="us")

        refusal = refused(4, [a_node("..xx|xxxx"), elsewhere])

        assert refusal.alternative == Alternative("h200-sxm-slice", 4, "us")

    def test_of_two_regions_with_as_few_the_one_asked_for_is_named(self) -> None:
        refusal = refused(4, [a_node("..xx", "far", region="ap"), a_node("..xx")])

        assert refusal.alternative == Alternative("h200-sxm-slice", 2, "eu")

    def test_slots_that_are_only_unfit_are_named_as_the_cause(self) -> None:
        refusal = refused(4, [a_node("...!|xxxx")])

        assert (refusal.reason, refusal.largest_free_block) == (Reason.NOT_READY, 2)

    def test_where_nothing_is_free_there_is_no_alternative(self) -> None:
        assert refused(1, [a_node("xxxx")]).alternative is None
        assert refused(1, []).details["nearest_alternative"] is None

    def test_a_node_without_slots_is_no_node(self) -> None:
        with pytest.raises(Rejected, match="without slots"):
            a_node("")


NODES = st.builds(
    a_node,
    st.text(".x!", min_size=4, max_size=4).map(lambda half: f"{half[:2]}|{half[2:]}"),
    partitioned=st.booleans(),
    claimed=st.sampled_from([False, False, True]),
    region=st.sampled_from(["eu", "eu", "us"]),
)


def could_serve(node: NodeView, gpus: int, region: str = "eu") -> bool:
    """By trying all sets of slots."""
    free = [at for at, slot in enumerate(node.slots) if slot.state is SlotState.FREE]
    if node.claimed or node.region != region:
        return False
    return any(
        not node.partitioned or (slots[0] % gpus == 0 and slots[-1] - slots[0] == gpus - 1)
        for slots in combinations(free, gpus)
    )


@given(st.lists(NODES, max_size=4), st.sampled_from([1, 2, 4]))
@settings(max_examples=outside.examples(150))
def test_a_request_is_refused_only_if_no_node_could_serve_it(
    views: list[NodeView], gpus: int
) -> None:
    nodes = [a_view(view, f"n{at}") for at, view in enumerate(views)]

    got = asked(gpus, nodes)

    assert isinstance(got, Placement) == any(could_serve(node, gpus) for node in nodes)
    if isinstance(got, Placement):
        node = next(node for node in nodes if node.id == got.node)
        assert len(set(got.slots)) == gpus
        assert all(node.slots[slot].state is SlotState.FREE for slot in got.slots)


@given(st.lists(NODES, max_size=4), st.sampled_from([1, 2, 4]))
@settings(max_examples=outside.examples(100))
def test_the_alternative_of_a_refusal_would_be_served(views: list[NodeView], gpus: int) -> None:
    nodes = [a_view(view, f"n{at}") for at, view in enumerate(views)]

    got = asked(gpus, nodes)

    if isinstance(got, Refusal) and got.alternative is not None:
        other = got.alternative
        assert isinstance(place(Ask(other.sku, other.gpus, other.region), CATALOGUE, nodes),
                          Placement)  # fmt: skip
    if isinstance(got, Refusal) and got.alternative is None:
        serves = [could_serve(node, 1, region) for node in nodes for region in ("eu", "us")]
        assert not any(serves)


@given(st.lists(NODES, min_size=2, max_size=4), st.sampled_from([1, 2, 4]))
@settings(max_examples=outside.examples(60))
def test_the_order_in_which_nodes_are_told_of_does_not_matter(
    views: list[NodeView], gpus: int
) -> None:
    nodes = [a_view(view, f"n{at}") for at, view in enumerate(views)]

    assert asked(gpus, nodes) == asked(gpus, nodes[::-1])


def a_view(node: NodeView, name: str) -> NodeView:
    return NodeView(
        name, node.region, node.skus, node.slots, partitioned=node.partitioned, claimed=node.claimed
    )
