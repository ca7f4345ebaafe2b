"""The compiled loops give the answers of the plain ones."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import outside
from mainstay.bench import decide as bench_decide
from mainstay.bench import lcg
from mainstay.engine import kernels
from mainstay.engine.decide import decide
from mainstay.engine.plan import Memory
from mainstay.engine.policy import Policy

CLASSES, DIMENSIONS = 4, 3


@pytest.fixture
def warm() -> Iterator[None]:
    assert kernels.warm(), "numba is part of the lock"
    yield
    kernels.cool()


@pytest.mark.usefixtures("warm")
def test_a_whole_fleet_is_decided_the_same_with_and_without_compiled_loops() -> None:
    fleet = lcg.generate(5_000, 300, 9)
    snapshot = bench_decide.stocked(fleet).snapshot()

    for case in bench_decide.make_cases(fleet):
        kernels.warm()
        compiled = decide(snapshot, case.demand, Memory.empty(), Policy(), 0.0)
        kernels.cool()
        plain = decide(snapshot, case.demand, Memory.empty(), Policy(), 0.0)

        assert compiled.actions == plain.actions
        assert np.array_equal(compiled.owner, plain.owner)
        assert compiled.unsatisfied == plain.unsatisfied


@settings(max_examples=outside.examples(200))
@given(st.data())
def test_the_compiled_claim_is_the_plain_claim(data: st.DataObject) -> None:
    kernels.warm()
    compiled = kernels.compiled()
    kernels.cool()
    assert compiled is not None
    size = data.draw(st.integers(0, 12))
    random = np.random.Generator(np.random.PCG64(data.draw(st.integers(0, 2**32))))
    rows = random.permutation(size).astype(np.int64)
    shapes = random.integers(CLASSES, size=size).astype(np.uint32)
    fits = random.random(CLASSES) < 0.8
    alloc = random.integers(4, size=(CLASSES, DIMENSIONS)).astype(np.int64)
    missing = random.integers(12, size=DIMENSIONS).astype(np.int64)
    owner = np.where(random.random(size) < 0.2, 7, -1).astype(np.int32)
    first_free = np.zeros(1, dtype=np.int64)
    out = np.zeros(size, dtype=np.int64)
    mine: list[Any] = [first_free, fits, alloc, owner, missing, out]
    twin: list[Any] = [array.copy() for array in mine]

    count = compiled(rows, shapes, *mine, 3)
    plain: kernels.Claim = kernels.claim_in_order
    expected = plain(rows, shapes, *twin, 3)

    assert count == expected
    assert all(np.array_equal(ours, theirs) for ours, theirs in zip(mine, twin, strict=True))
