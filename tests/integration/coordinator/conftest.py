"""What the tests of the coordinator share: one cluster of etcd, each test below its own prefix."""

from collections.abc import Iterator

import pytest

from etcd_servers import EtcdServers, etcd_servers


@pytest.fixture(scope="session")
def etcd_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServers]:
    """Three members. Who kills one starts it again."""
    with etcd_servers(tmp_path_factory.mktemp("etcd")) as servers:
        yield servers
