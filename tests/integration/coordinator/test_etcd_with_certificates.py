"""etcd that answers only by TLS, and only to whom has a certificate of its authority."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from certificates import Authority
from etcd_servers import EtcdServers, etcd_servers
from mainstay.config.coordinator import CoordinatorConfig
from mainstay.coordinator.store import Change
from mainstay.model.errors import Unavailable
from mainstay.processes.coordinator_store import opened
from mainstay.runtime.clock import SystemClock
from mainstay.wire.tls import TlsFlags

pytestmark = pytest.mark.needs("etcd-server")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("secured")


@pytest.fixture(scope="module")
def authority(folder: Path) -> Authority:
    return Authority(folder)


@pytest.fixture(scope="module")
def etcd(folder: Path, authority: Authority) -> Iterator[EtcdServers]:
    with etcd_servers(folder / "etcd", size=1, tls=authority.flags(name="etcd")) as servers:
        yield servers


def settings(etcd: EtcdServers, flags: TlsFlags) -> CoordinatorConfig:
    return CoordinatorConfig(
        etcd=tuple(etcd.endpoints), etcd_ca=flags.ca, etcd_cert=flags.cert, etcd_key=flags.key
    )


async def written_and_read(config: CoordinatorConfig, home: Path) -> dict[str, bytes]:
    async with opened(config, home, SystemClock()) as store:
        leads = await store.campaign(candidate="c-0", address="c-0:1")
        assert leads is not None
        await leads.renew()
        await leads.commit(Change(puts={"k": b"v"}))
        found = {key: entry.value for key, entry in (await store.load()).entries.items()}
        await leads.resign()
    return found


def test_a_coordinator_with_a_certificate_of_etcds_authority_leads_and_writes(
    etcd: EtcdServers, authority: Authority, tmp_path: Path
) -> None:
    config = settings(etcd, authority.flags("bigfleet://admin", name="coordinator"))

    assert asyncio.run(written_and_read(config, tmp_path)) == {"k": b"v"}


def test_one_with_a_certificate_of_another_authority_is_not_answered(
    etcd: EtcdServers, authority: Authority, tmp_path: Path
) -> None:
    """Each side refuses the other: etcd a foreign client, the client a foreign etcd."""
    foreign = Authority(tmp_path, name="foreign").flags(name="stranger")
    ours = authority.flags(name="coordinator")

    for ca in (foreign.ca, ours.ca):
        flags = TlsFlags(cert=foreign.cert, key=foreign.key, ca=ca)
        with pytest.raises(Unavailable, match="etcd at"):
            asyncio.run(written_and_read(settings(etcd, flags), tmp_path))


def test_one_that_speaks_plainly_is_not_answered(etcd: EtcdServers, tmp_path: Path) -> None:
    plain = tuple(each.replace("https://", "http://") for each in etcd.endpoints)

    with pytest.raises(Unavailable, match="etcd at"):
        asyncio.run(written_and_read(CoordinatorConfig(etcd=plain), tmp_path))
