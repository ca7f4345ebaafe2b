"""What a shard process writes down, it writes whoever else is busy."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mainstay.config.shard import ShardConfig
from mainstay.processes.shard_ground import threads
from mainstay.processes.shard_records import audit_log
from mainstay.shard.audit.verify import verify
from noticing import NoticingJournal


def test_the_audit_log_is_written_while_questions_have_every_other_thread(tmp_path: Path) -> None:
    answered = threading.Event()

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        question = loop.run_in_executor(None, answered.wait)
        async with threads(1, "audit") as aside:
            log = audit_log(ShardConfig(data_dir=str(tmp_path)), tmp_path, aside)
            assert log is not None
            log.append(lambda: {"number": 1})
            try:
                async with asyncio.timeout(30):
                    await log.close(NoticingJournal())
            finally:
                answered.set()
                await question
        assert log.written == 1

    asyncio.run(scenario())

    assert verify(tmp_path / "audit").lines >= 1
