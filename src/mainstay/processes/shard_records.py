"""What a shard leaves on disk, and where: its data, the audit log, which need claims what."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from mainstay.config.shard import ShardConfig
from mainstay.processes.shard_parts import Beside
from mainstay.runtime.aside import Aside
from mainstay.runtime.slot import Slot
from mainstay.shard.audit.attribution import AttributionLog
from mainstay.shard.audit.files import AuditFiles, Sizes
from mainstay.shard.audit.log import AuditLog
from mainstay.shard.facts import Published
from mainstay.shard.journal import ShardJournal
from mainstay.shard.thought import Cycled


def data_dir(config: ShardConfig, home: Path) -> Path:
    """Where a shard keeps what survives it."""
    return Path(config.data_dir) if config.data_dir else home / "shards" / config.shard_id


def _audit_dir(config: ShardConfig, home: Path) -> Path:
    return Path(config.audit_dir) if config.audit_dir else data_dir(config, home) / "audit"


def audit_log(config: ShardConfig, home: Path, aside: Aside) -> AuditLog | None:
    """None where it is switched off."""
    if not config.audit_log:
        return None
    sizes = Sizes(file_bytes=config.audit_file_bytes, files_max=config.audit_files_max)
    return AuditLog(AuditFiles(_audit_dir(config, home), sizes), aside)


def audited(audit: AuditLog | None, journal: ShardJournal) -> tuple[Beside, ...]:
    """What writes it, beside the shard."""
    return () if audit is None else (lambda: audit.run(journal),)


class Attributed(NamedTuple):
    """What writes down which need claims what, if anybody does."""

    seen: Callable[[Cycled], None]
    beside: tuple[Beside, ...]


def attributed(config: ShardConfig, home: Path, journal: ShardJournal, aside: Aside) -> Attributed:
    """The newest cycle only: a log that cannot follow leaves some out."""
    if not config.attribution_log:
        return Attributed(lambda _: None, ())
    path = data_dir(config, home) / "attribution.jsonl"
    log_, newest = AttributionLog(path, aside), Slot[Published]()

    async def write() -> None:
        while True:
            await newest.wait()
            published = newest.take()
            await log_.tell(published.plan, cycle=published.cycle, journal=journal)

    def seen(cycled: Cycled) -> None:
        newest.put(cycled.published)

    return Attributed(seen, (write,))
