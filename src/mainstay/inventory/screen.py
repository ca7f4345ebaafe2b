"""Which records of a report cannot be taken in, and why: the rules and edges, on columns.

Called by mainstay.inventory.merge. Columns find the suspects; one by one they are then judged as
`add` and `apply` would judge them.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mainstay.inventory.store import Store
from mainstay.model.batch import MachineBatch
from mainstay.model.errors import IllegalTransition, InvalidMachine, MainstayError
from mainstay.model.ids import ID_LENGTH_MAX, is_id
from mainstay.model.machine import HOST_REF_BYTES_MAX, check
from mainstay.model.state import NEXT, RULES, Presence, State, check_transition
from mainstay.model.texts import Rows, Texts

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A record that was not taken in; `reason` is a label, `message` a sentence.

    The label is a rule of `mainstay.model.machine.MachineRule`, or the code of an error: an edge
    that the table does not have is `illegal_transition`.
    """

    machine: str
    reason: str
    message: str


def refusals(store: Store, batch: MachineBatch, rows: Rows) -> dict[int, Refusal]:
    """Every record that cannot be taken in, by its place in the batch."""
    refused = {}
    for place in np.flatnonzero(_suspect(store, batch, rows) | _too_varied(store, batch)).tolist():
        error = _error(store, batch, place, int(rows[place]))
        if error is not None:
            refused[place] = refusal_of(batch.ids[place], error)
    return refused


def refusal_of(identity: str, error: MainstayError) -> Refusal:
    """An error as a refusal: its reason is the rule that is broken, else the error's code."""
    reason = error.rule if isinstance(error, InvalidMachine) else error.code
    return Refusal(identity, str(reason), error.message)


def _error(store: Store, batch: MachineBatch, position: int, row: int) -> MainstayError | None:
    """What `add` or `apply` would say of one report."""
    try:
        machine = batch.machine(position)
        check(machine)
        if row >= 0 and (old := State(store.columns.state.item(row))) is not machine.state:
            check_transition(old, machine.state, machine=machine.id)
        store.shapes.code(batch.shapes[batch.shape[position]])
    except (InvalidMachine, IllegalTransition) as error:
        return error
    return None


def _by_state(presence: Presence, what: str) -> Mask:
    return np.array([getattr(RULES[state], what) is presence for state in State])


_HOST_ALWAYS: Final = _by_state(Presence.ALWAYS, "host")
_HOST_NEVER: Final = _by_state(Presence.NEVER, "host")
_CLUSTER_ALWAYS: Final = _by_state(Presence.ALWAYS, "cluster")
_CLUSTER_NEVER: Final = _by_state(Presence.NEVER, "cluster")
_LEGAL: Final = np.array([[old == new or new in NEXT[old] for new in State] for old in State])


def _suspect(store: Store, batch: MachineBatch, rows: Rows) -> Mask:
    """Where a report may break a rule or an edge: the same rules as `check`, on columns."""
    bad: Mask = (batch.state == State.UNSPECIFIED) | (batch.state > max(State))
    state = np.where(bad, 0, batch.state)
    host, cluster = batch.host_provider != 0, batch.cluster != 0
    bad |= (_HOST_ALWAYS[state] & ~host) | (_HOST_NEVER[state] & host)
    bad |= (_CLUSTER_ALWAYS[state] & ~cluster) | (_CLUSTER_NEVER[state] & cluster)
    bad |= (state == State.FAILED) & (batch.last_error == 0)
    ref_length = batch.host_ref.length
    bad |= host & ((ref_length == 0) | (ref_length > HOST_REF_BYTES_MAX))
    odd_clusters = np.array([bool(name) and not is_id(name) for name in batch.clusters])
    bad |= odd_clusters[batch.cluster]
    price, probability = batch.price_per_hour, batch.interruption_probability
    bad |= ~((price >= 0.0) & np.isfinite(price))
    bad |= ~((probability >= 0.0) & (probability <= 1.0))
    bad |= (rows < 0) & _odd_ids(batch.ids)
    known = rows >= 0
    bad[known] |= ~_LEGAL[store.columns.state[rows[known]], state[known]]
    return bad


def _too_varied(store: Store, batch: MachineBatch) -> Mask:
    """Where the shape would need more dimensions than the inventory holds."""
    used = np.unique(batch.shape)
    refused = np.zeros(len(batch.shapes), dtype=np.bool_)
    refused[used] = [not store.shapes.can_hold(batch.shapes[code]) for code in used.tolist()]
    return refused[batch.shape]


def _odd_ids(ids: Texts) -> Mask:
    """Where an id is empty, too long, or has a character that no id has."""
    odd = (ids.arena <= 0x20) | (ids.arena >= 0x7F)
    before = np.concatenate([[0], np.cumsum(odd)])
    start = ids.offset.astype(np.int64)
    found: Mask = before[start + ids.length] != before[start]
    found |= (ids.length == 0) | (ids.length > ID_LENGTH_MAX)
    return found
