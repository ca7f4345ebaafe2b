"""The board says what ranking every node says, however its nodes came to be what they are."""

from hypothesis import given, settings
from hypothesis import strategies as st

import outside
from mainstay.tenancy.placement.board import Board
from mainstay.tenancy.placement.place import Refusal, place
from mainstay.tenancy.placement.rank import Choice, outlook_for, ranked
from mainstay.tenancy.placement.shape import Ask, CapacityShape, NodeView, Sku, Slot, SlotState

SKUS = (
    Sku("slice", CapacityShape.GPU_SLICE, (1, 2, 4), 24_000, 65_536),
    Sku("whole", CapacityShape.BAREMETAL, (4,)),
)
CATALOGUE = {sku.name: sku for sku in SKUS}
NAMES = ("a", "b", "c", "d", "e", "f")
ASKS = [
    Ask(sku, gpus, region) for sku in ("slice", "whole", "none") for gpus in (0, 1, 2, 3, 4)
    for region in ("eu", "us", "nowhere")
]  # fmt: skip

views = st.builds(
    NodeView,
    id=st.sampled_from(NAMES),
    region=st.sampled_from(["eu", "us"]),
    skus=st.sampled_from([frozenset({"slice"}), frozenset({"slice", "whole"})]),
    slots=st.lists(st.sampled_from([*SlotState, SlotState.FREE]), min_size=4, max_size=4).map(
        lambda states: tuple(Slot(state, index // 2) for index, state in enumerate(states))
    ),
    cpu_milli=st.sampled_from([0, 24_000, 96_000]),
    memory_mib=st.just(262_144),
    partitioned=st.booleans(),
    claimed=st.booleans(),
)
changes = st.lists(st.one_of(views, st.sampled_from(NAMES)), max_size=30)


def every_one(ask: Ask, nodes: list[NodeView]) -> list[Choice]:
    """Without a board: each node by itself."""
    sku = CATALOGUE.get(ask.sku)
    if sku is None or ask.gpus not in sku.allowed_gpu_counts:
        return []
    here = [node for node in nodes if ask.sku in node.skus and node.region == ask.region]
    return ranked(sku, ask.gpus, here, outlook_for(sku))


@settings(max_examples=outside.examples(60))
@given(changes=changes, at_most=st.integers(1, 8))
def test_the_best_nodes_and_every_refusal_are_those_of_all_nodes(
    changes: list[NodeView | str], at_most: int
) -> None:
    board = Board(CATALOGUE, [])
    nodes: dict[str, NodeView] = {}
    for change in changes:
        if isinstance(change, NodeView):
            board.put(change)
            nodes[change.id] = change
        else:
            board.drop(change)
            nodes.pop(change, None)
        for ask in ASKS[::7]:  # so that what was asked before is remembered wrongly, if at all
            board.best(ask, at_most)
    for ask in ASKS:
        expected = every_one(ask, list(nodes.values()))
        assert board.best(ask, at_most) == expected[:at_most], ask
        found = place(ask, CATALOGUE, list(nodes.values()))
        assert isinstance(found, Refusal) is (not expected)
        if isinstance(found, Refusal):
            assert board.refusal(ask) == found
