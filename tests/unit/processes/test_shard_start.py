"""What keeps a shard from starting, before anything of it runs."""

import asyncio
from pathlib import Path

import pytest

from mainstay.config.shard import ShardConfig
from mainstay.model.errors import Rejected
from mainstay.processes.shard import Place, serve_shard
from mainstay.runtime.clock import StepClock


def test_plaintext_reaches_no_coordinator_beyond_loopback(tmp_path: Path) -> None:
    config = ShardConfig(
        providers=("sim=127.0.0.1:1",),
        coordinators=("127.0.0.1:7790", "10.9.8.7:7790"),
        insecure=True,
    )

    with pytest.raises(Rejected, match=r"plaintext only on loopback, not at 10\.9\.8\.7:7790"):
        asyncio.run(serve_shard(config, Place(tmp_path, StepClock(), lambda _: None)))
    assert list(tmp_path.iterdir()) == []
