"""What providers had and were asked before all of it went down, and after it came up again."""

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from mainstay.config.world import PROVIDERS
from mainstay.model.state import TRANSITIONAL, State
from mainstay.processes.up_plan import SHARDS

STEPS: Final = ("create", "configure", "drain", "delete")
GONE: Final = frozenset({"reclaim", "preempt", "delete"})
AT_REST: Final = frozenset({State.SPECULATIVE, State.IDLE, State.CONFIGURED})


def calls(page: Callable[[str], str], *kinds: str) -> dict[tuple[str, str], float]:
    """How often each call came to each provider: these kinds, or all; by pages of the world."""
    found: dict[tuple[str, str], float] = {}
    for provider in PROVIDERS:
        for line in page(f"/metrics/{provider}").splitlines():
            if line.startswith("mainstay_provider_calls_total{"):
                call = line.partition('call="')[2].partition('"')[0]
                if not kinds or call in kinds:
                    before = found.get((provider, call), 0.0)
                    found[provider, call] = before + float(line.rsplit(" ", 1)[1])
    return found


def under_way(metrics: str) -> float:
    """How many machines a shard has in a state that ends, by its page of metrics: before the first
    call of a step its provider does not know of it.
    """
    return sum(
        float(line.rsplit(" ", 1)[1])
        for line in metrics.splitlines()
        if line.startswith("mainstay_shard_inventory_machines{")
        and any(f'state="{state}"' in line for state in TRANSITIONAL)
    )


def machines(home: Path) -> dict[str, tuple[State, str]]:
    """State and cluster of each, by copies of the providers' stores: nobody is asked."""
    found = {}
    with tempfile.TemporaryDirectory() as copies:
        for path in sorted((home / "providers").iterdir()):
            shutil.copy(path, copies)
        for provider in PROVIDERS:
            with closing(sqlite3.connect(Path(copies) / f"{provider}.db")) as store:
                for name, record in store.execute("select id, record from machines"):
                    told = json.loads(record)
                    found[str(name)] = (State(told["state"]), str(told.get("cluster") or ""))
    return found


def audited(home: Path) -> dict[str, list[dict[str, Any]]]:
    """What each shard did, by its audit log."""
    return {shard: _actions(home / "shards" / shard / "audit") for shard in SHARDS}


def _actions(audit: Path) -> list[dict[str, Any]]:
    return [
        line
        for path in sorted(audit.glob("*.jsonl"))
        for text in path.read_text().splitlines()
        if (line := json.loads(text))["what"] == "action"
    ]
