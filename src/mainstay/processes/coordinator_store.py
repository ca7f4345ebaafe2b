"""Which store a coordinator's settings mean, and a restore into it while nobody runs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from mainstay.config.coordinator import CoordinatorConfig
from mainstay.coordinator import archive, snapshots
from mainstay.coordinator.embedded import EmbeddedStore
from mainstay.coordinator.etcd import EtcdStore
from mainstay.coordinator.snapshots import Restored, Restoring
from mainstay.coordinator.store import Store
from mainstay.model.errors import Rejected
from mainstay.runtime.clock import Clock
from mainstay.wire.tls import MutualTls, is_loopback

FILE = "coordinator.db"


@asynccontextmanager
async def opened(config: CoordinatorConfig, home: Path, clock: Clock) -> AsyncIterator[Store]:
    """The store, closed at the end."""
    store = _store(config, home, clock)
    try:
        yield store
    finally:
        await store.close()


async def restore_snapshot(
    config: CoordinatorConfig, home: Path, snapshot: Path, by: Restoring
) -> Restored:
    """Put a snapshot (a tar, or a folder of an export) into the store of these settings."""
    wanted = snapshots.restorable(archive.read(snapshot))
    async with opened(config, home, by.clock) as store:
        return await snapshots.restore(store, wanted, by)


def _store(config: CoordinatorConfig, home: Path, clock: Clock) -> Store:
    if not config.etcd:
        path = Path(config.store_file) if config.store_file else home / FILE
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Rejected(f"cannot write {path}: {error.strerror} (set MAINSTAY_HOME)") from error
        return EmbeddedStore(path, clock=clock, lease_s=config.lease_s)
    tls = None
    far = [member for member in config.etcd if not is_loopback(member.partition("://")[2])]
    if far and not (config.etcd_is_secured or config.etcd_insecure):
        raise Rejected(
            f"plaintext to an etcd that is not on this machine: {far[0]} (name it as https:// with"
            " coordinator.etcd_ca, etcd_cert and etcd_key, or set coordinator.etcd_insecure)"
        )
    if config.etcd_is_secured:
        tls = MutualTls(Path(config.etcd_cert), Path(config.etcd_key), Path(config.etcd_ca))
    prefix = f"mainstay/{config.fleet}"
    return EtcdStore(config.etcd, prefix=prefix, lease_s=config.lease_s, tls=tls)
