"""The partition tree: blocks never overlap, join again by themselves, and are never kept back."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import outside
from mainstay.model.errors import Rejected
from mainstay.tenancy.placement.buddy import Block, PartitionTree

SIZES = st.sampled_from([1, 2, 4, 8])
TREES = st.builds(PartitionTree.of, st.just(8), st.sets(st.integers(0, 7)))


def legal(tree: PartitionTree, size: int) -> list[Block]:
    """By the definition: aligned, whole, all its slots free."""
    free = {slot for slot in range(tree.size) if tree.free >> slot & 1}
    starts = [start for start in range(tree.size) if start % size == 0]
    return [Block(start, size) for start in starts if {*range(start, start + size)} <= free]


class AFullLife(RuleBasedStateMachine):
    """Blocks are taken and given back in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.tree = PartitionTree.of(8, range(8))
        self.taken: list[Block] = []

    @rule(size=SIZES)
    def allocate(self, size: int) -> None:
        block = self.tree.choose(size)
        assert (block is None) == (legal(self.tree, size) == [])
        if block is not None:
            self.tree = self.tree.take(block)
            self.taken.append(block)

    @precondition(lambda self: bool(self.taken))
    @rule(which=st.integers(0, 7))
    def release(self, which: int) -> None:
        block = self.taken.pop(which % len(self.taken))
        self.tree = self.tree.give_back(block)

    @invariant()
    def no_slot_is_given_out_twice_and_none_is_lost(self) -> None:
        slots = [slot for block in self.taken for slot in block.slots]
        assert len(slots) == len(set(slots))
        assert self.tree.free_count == 8 - len(slots)

    @invariant()
    def the_largest_free_block_is_what_could_be_taken(self) -> None:
        sizes = [size for size in (1, 2, 4, 8) if legal(self.tree, size)]
        assert self.tree.largest == max(sizes, default=0)

    @invariant()
    def an_empty_node_is_one_block_again(self) -> None:
        if not self.taken:
            assert self.tree.largest == 8


TestAFullLife = AFullLife.TestCase
TestAFullLife.settings = settings(max_examples=outside.examples(60), stateful_step_count=30)


@given(TREES, SIZES)
@settings(max_examples=outside.examples(100))
def test_what_is_broken_up_is_the_smallest_that_will_do(tree: PartitionTree, size: int) -> None:
    block = tree.choose(size)

    broken = [tree.enclosing(other).size for other in legal(tree, size)]
    assert block is None or tree.enclosing(block).size == min(broken)


@given(TREES, SIZES)
@settings(max_examples=outside.examples(100))
def test_a_smaller_request_leaves_the_largest_block_whole_if_any_way_does(
    tree: PartitionTree, size: int
) -> None:
    block = tree.choose(size)

    ways = [tree.take(other).largest for other in legal(tree, size)]
    assert block is None or tree.take(block).largest == max(ways)


@given(TREES, SIZES, st.lists(st.integers(0, 1), min_size=8, max_size=8))
@settings(max_examples=outside.examples(100))
def test_no_block_on_fewer_numa_nodes_is_passed_over(
    tree: PartitionTree, size: int, numa: list[int]
) -> None:
    block = tree.choose(size, numa)

    spans = [len({numa[slot] for slot in other.slots}) for other in legal(tree, size)]
    assert block is None or len({numa[slot] for slot in block.slots}) == min(spans)


@pytest.mark.parametrize("size", [3, 5, 6, 7, 0, -1, 16])
def test_a_size_that_no_partition_has_is_in_no_tree(size: int) -> None:
    assert PartitionTree.of(8, range(8)).choose(size) is None


@pytest.mark.parametrize("block", [Block(0, 2), Block(1, 2), Block(6, 4), Block(-1, 1)])
def test_what_is_not_taken_cannot_be_given_back(block: Block) -> None:
    with pytest.raises(Rejected, match="not a taken block"):
        PartitionTree.of(8, range(4)).give_back(block)


@pytest.mark.parametrize("block", [Block(4, 4), Block(1, 2), Block(0, 8)])
def test_what_is_not_free_cannot_be_taken(block: Block) -> None:
    with pytest.raises(Rejected, match="not a free block"):
        PartitionTree.of(8, range(4)).take(block)


def test_slots_that_a_node_does_not_have_are_never_free() -> None:
    tree = PartitionTree.of(6, range(6))

    assert (tree.size, tree.largest, tree.free_count) == (8, 4, 6)
    with pytest.raises(Rejected, match="no such slot: 6"):
        PartitionTree.of(6, [6])
    with pytest.raises(Rejected, match="a power of two"):
        PartitionTree(6, 0)
    with pytest.raises(Rejected, match="outside"):
        PartitionTree(4, 1 << 4)
