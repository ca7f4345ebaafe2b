"""Which store the settings of a coordinator mean."""

import asyncio
from pathlib import Path

import pytest

from mainstay.config.coordinator import CoordinatorConfig
from mainstay.model.errors import Rejected
from mainstay.processes.coordinator_store import opened
from mainstay.runtime.clock import StepClock


def label(config: CoordinatorConfig, home: Path) -> str:
    """Of the store that is opened; nobody is called."""

    async def named() -> str:
        async with opened(config, home, StepClock()) as store:
            return store.label

    return asyncio.run(named())


@pytest.mark.parametrize("member", ["http://10.9.8.7:2379", "http://etcd-0:2379"])
def test_plaintext_to_an_etcd_on_another_machine_is_refused(member: str, tmp_path: Path) -> None:
    config = CoordinatorConfig(etcd=("http://127.0.0.1:2379", member))

    with pytest.raises(Rejected, match=f"plaintext to an etcd.*: {member} .*etcd_insecure"):
        label(config, tmp_path)


def test_unless_it_is_said_to_be_meant(tmp_path: Path) -> None:
    config = CoordinatorConfig(etcd=("http://10.9.8.7:2379",), etcd_insecure=True)

    assert "10.9.8.7" in label(config, tmp_path)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_on_this_machine_nobody_is_in_between(host: str, tmp_path: Path) -> None:
    assert "etcd" in label(CoordinatorConfig(etcd=(f"http://{host}:2379",)), tmp_path)
