"""Who waits is packed into nodes without looking at each of them, and shares them all the same."""

from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

import outside
from mainstay.tenancy.wanted import Kind, Waiting, nodes_for
from oracles.plain_wanted import plain_nodes_for

EIGHT: Final = Kind(name="k", region="r", instance_types=("big",), sold_as=("slice",), gpus=8)

REQUESTS: Final = st.lists(
    st.tuples(
        st.integers(1, 8), st.integers(0, 3), st.booleans(), st.integers(0, 4), st.integers(0, 4)
    ),
    max_size=40,
)


@given(REQUESTS)
@settings(max_examples=outside.examples(200), deadline=None)
def test_requests_share_the_nodes_that_a_look_at_every_node_gives_them(
    drawn: list[tuple[int, int, bool, int, int]],
) -> None:
    waiting = [
        Waiting(
            sku="slice", region="r", gpus=gpus, priority=priority, whole=whole,
            interruption_bucket=interrupted, reclamation_bucket=reclaimed, request=f"cap_{place}",
        )
        for place, (gpus, priority, whole, interrupted, reclaimed) in enumerate(drawn)
    ]  # fmt: skip

    assert nodes_for(EIGHT, waiting) == plain_nodes_for(EIGHT, waiting)
