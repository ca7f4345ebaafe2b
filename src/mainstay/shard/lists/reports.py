"""What can be read off a report and what became of it, without changing anything."""

from mainstay.inventory.merge import MergeReport
from mainstay.inventory.snapshot import Snapshot
from mainstay.model.batch import MachineBatch
from mainstay.model.ids import MachineId
from mainstay.model.state import State
from mainstay.shard.lists.telling import Moved
from mainstay.shard.ports import Listed


def says_anything(listed: Listed) -> bool:
    """Whether there is anything to take in: in a quiet provider's next list there is not."""
    if listed.full or len(listed.ids) or listed.tombstones:
        return True
    return not isinstance(listed, MachineBatch) and bool(listed.nameless)


def machines_of(snapshot: Snapshot, source: str) -> int:
    """How many machines of a provider we know; counted once for a snapshot."""
    return snapshot.by_source.get(source, 0)


def moved_by(merged: MergeReport, snapshot: Snapshot) -> list[tuple[MachineId, State, Moved]]:
    """The machines whose state or cluster is another than before, and how they stood."""
    moved = []
    rows = merged.changed.tolist()
    states = zip(merged.state_before.tolist(), snapshot.state[merged.changed].tolist(), strict=True)
    for row, (old, new), cluster in zip(rows, states, merged.cluster_before, strict=True):
        if old != new or cluster != snapshot.cluster_of(row):
            before = Moved(State(old), cluster)
            moved.append((MachineId(snapshot.ids[row]), State(new), before))
    return moved
