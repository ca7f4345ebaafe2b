# mypy: disable-error-code="no-untyped-call, assignment, return-value, arg-type"
"""The inner loops, compiled. Imported only through `mainstay.engine.kernels`, since numba is slow
to load; the numpy form of every step stands beside its caller, and tests hold both to one answer.

Lanes are lists of machines, one list per (group, signature): machines of one signature fit the same
needs. `first[lane]` is a place before which all are claimed; `place` is where a machine stands in
the order over all lanes of the group, so that several lanes are walked as one.
"""

from typing import Any

import numpy as np
from numba import boolean, float64, int32, int64, njit, types, uint32, uint64, void


def _frozen(dtype: Any) -> Any:
    """A column of a snapshot: never written to."""
    return types.Array(dtype, 1, "C", readonly=True)


@njit(types.Tuple((int32[::1], float64[::1]))(float64[::1], int64), cache=True)
def codes_of(values: Any, most: int) -> Any:
    """The place of every value among the distinct ones, sorted; none if there are more than `most`.

    NaN is not expected. 0.0 and -0.0 are one value.
    """
    size = 16
    while size < 2 * most and size < 2 * len(values):
        size *= 2
    table = np.full(size, -1, np.int32)
    found = np.empty(most, np.float64)
    codes = np.empty(len(values), np.int32)
    count = 0
    bits = (values + 0.0).view(np.uint64)
    for at in range(len(values)):
        mixed = bits[at] * np.uint64(0x9E3779B97F4A7C15)
        slot = np.int64((mixed >> np.uint64(32)) & np.uint64(size - 1))
        while True:
            code = table[slot]
            if code < 0:
                if count == most:
                    return codes[:0], found[:0]
                table[slot] = count
                found[count] = values[at]
                codes[at] = count
                count += 1
                break
            if found[code] == values[at]:
                codes[at] = code
                break
            slot = (slot + 1) & (size - 1)
    order = np.argsort(found[:count])
    place = np.empty(count, np.int32)
    for rank in range(count):
        place[order[rank]] = rank
    for at in range(len(codes)):
        codes[at] = place[codes[at]]
    return codes, found[:count][order]


@njit(int64[::1](uint64[::1], int64), cache=True)
def radix(keys: Any, bits: int) -> Any:
    """Places in order of the lowest `bits` of their keys; equal ones stay as they are."""
    size = len(keys)
    order = np.arange(size)
    spare = np.empty(size, np.int64)
    shift = 0
    while shift < bits:
        width = min(11, bits - shift)
        mask = np.uint64((1 << width) - 1)
        start = np.zeros((1 << width) + 1, np.int64)
        for at in range(size):
            start[np.int64((keys[at] >> np.uint64(shift)) & mask) + 1] += 1
        for digit in range(1 << width):
            start[digit + 1] += start[digit]
        for at in range(size):
            digit = np.int64((keys[order[at]] >> np.uint64(shift)) & mask)
            spare[start[digit]] = order[at]
            start[digit] += 1
        order, spare = spare, order
        shift += width
    return order


@njit(
    types.Tuple((int64[::1], int64[::1]))(
        int64[::1], int64[::1], int64[::1], int64[::1], _frozen(float64), _frozen(uint32),
        _frozen(float64), _frozen(int32),
    ),
    cache=True,
)  # fmt: skip
def merged(
    old: Any, old_group: Any, new: Any, new_group: Any, price: Any, assignment: Any, value: Any,
    rank: Any,
) -> Any:  # fmt: skip
    """Two lists of bound machines in keep order as one, and the group of each.

    `value` is the reclamation penalty by assignment.
    """
    out = np.empty(len(old) + len(new), np.int64)
    group = np.empty(len(old) + len(new), np.int64)
    copied = 0
    for at in range(len(new)):
        b = new[at]
        low, high = copied, len(old)
        while low < high:
            middle = (low + high) // 2
            a = old[middle]
            if old_group[middle] != new_group[at]:
                before = old_group[middle] < new_group[at]
            elif price[a] != price[b]:
                before = price[a] < price[b]
            elif value[assignment[a]] != value[assignment[b]]:
                before = value[assignment[a]] > value[assignment[b]]
            else:
                before = rank[a] < rank[b]
            if before:
                low = middle + 1
            else:
                high = middle
        out[at + copied : at + low] = old[copied:low]
        group[at + copied : at + low] = old_group[copied:low]
        out[at + low], group[at + low] = b, new_group[at]
        copied = low
    out[len(new) + copied :] = old[copied:]
    group[len(new) + copied :] = old_group[copied:]
    return out, group


@njit(
    types.Tuple((int64[::1], int64[::1], uint32[::1], int64[::1], int32[::1]))(
        int64[::1], int64[::1], int64, _frozen(uint32), int32[::1], int64, _frozen(uint32),
        int32[::1],
    ),
    cache=True,
)  # fmt: skip
def lanes_of(
    rows: Any, group: Any, groups: int, shape: Any, signature: Any, signatures: int,
    assignment: Any, gang_of_assignment: Any,
) -> Any:  # fmt: skip
    """(start of each lane, rows, shapes, places, gangs), each lane in the order of `rows`."""
    start = np.zeros(groups * signatures + 1, np.int64)
    shapes = np.empty(len(rows), np.uint32)
    lanes = np.empty(len(rows), np.int32)
    for at in range(len(rows)):
        shapes[at] = shape[rows[at]]
        lanes[at] = group[at] * signatures + signature[shapes[at]]
        start[lanes[at] + 1] += 1
    for lane in range(groups * signatures):
        start[lane + 1] += start[lane]
    fill = start.copy()
    out_rows = np.empty(len(rows), np.int64)
    out_shapes = np.empty(len(rows), np.uint32)
    out_places = np.empty(len(rows), np.int64)
    gang = np.empty(len(rows), np.int32)
    for at in range(len(rows)):
        to = fill[lanes[at]]
        fill[lanes[at]] += 1
        out_rows[to], out_shapes[to], out_places[to] = rows[at], shapes[at], at
        gang[to] = gang_of_assignment[assignment[rows[at]]]
    return start, out_rows, out_shapes, out_places, gang


@njit(int32[::1](boolean[:, ::1], int32[::1]), cache=True)
def signatures_of(fits: Any, representative: Any) -> Any:
    """Classes that fit the same kinds share a number; `representative` gets a class of each.

    A hash proposes, the columns themselves decide.
    """
    kinds, classes = fits.shape
    hashes = np.zeros(classes, np.uint64)
    for kind in range(kinds):
        word = np.uint64(kind + 1) * np.uint64(0x9E3779B97F4A7C15)
        word = (word ^ (word >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        for at in range(classes):
            if fits[kind, at]:
                hashes[at] += word
    size = 16
    while size < 2 * classes:
        size *= 2
    table = np.full(size, -1, np.int32)
    signature = np.empty(classes, np.int32)
    count = 0
    for at in range(classes):
        slot = np.int64((hashes[at] * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & (size - 1)
        while True:
            number = table[slot]
            if number < 0:
                table[slot] = count
                representative[count] = at
                signature[at] = count
                count += 1
                break
            other = representative[number]
            same = hashes[other] == hashes[at]
            if same:
                for kind in range(kinds):
                    if fits[kind, other] != fits[kind, at]:
                        same = False
                        break
            if same:
                signature[at] = number
                break
            slot = (slot + 1) & (size - 1)
    return signature


@njit(boolean(int64[::1]), cache=True)
def _is_short(missing: Any) -> bool:
    for at in range(len(missing)):
        if missing[at] > 0:
            return True
    return False


@njit(int64(int64[:, ::1], int64, int64[::1], int64[::1]), cache=True)
def _units(alloc: Any, shape: int, unit: Any, missing: Any) -> int:
    """How many whole units a machine adds; -1 when all it has counts; 0 when nothing is wanted."""
    whole = np.int64(-1)
    for at in range(len(unit)):
        if unit[at] > 0:
            fit = alloc[shape, at] // unit[at]
            if whole < 0 or fit < whole:
                whole = fit
    for at in range(len(missing)):
        if missing[at] > 0:
            if whole < 0:
                if alloc[shape, at] > 0:
                    return -1
            elif whole * unit[at] > 0:
                return whole
    return 0


@njit(boolean(int64[:, ::1], int64, int64[::1], int64, int64[::1]), cache=True)
def _lower(alloc: Any, shape: int, unit: Any, whole: int, missing: Any) -> bool:
    """Take off what a machine adds; whether something is still missing."""
    short = False
    for at in range(len(missing)):
        adds = alloc[shape, at] if whole < 0 else whole * unit[at]
        missing[at] = max(0, missing[at] - adds)
        short = short or missing[at] > 0
    return short


@njit(void(int64[::1], int64[::1], int64, int64[::1]), cache=True)
def _sink(heads: Any, ends: Any, size: int, places: Any) -> None:
    """Let the first of a heap of lanes sink to where it belongs."""
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            return
        if child + 1 < size and places[heads[child + 1]] < places[heads[child]]:
            child += 1
        if places[heads[at]] <= places[heads[child]]:
            return
        heads[at], heads[child] = heads[child], heads[at]
        ends[at], ends[child] = ends[child], ends[at]
        at = child


@njit(boolean(int64[:, ::1], int64, int64[::1]), cache=True)
def _helps(most: Any, signature: int, missing: Any) -> bool:
    """Whether any machine of a signature has something that is missing."""
    for at in range(len(missing)):
        if missing[at] > 0 and most[signature, at] > 0:
            return True
    return False


_LANES = (int64[::1], int64[::1], uint32[::1], int64[::1], int64[::1], int32[::1])
_QUOTA = (int64[::1], int32[::1], int64[::1])


@njit(
    int64(
        *_LANES, int64, int32[::1], int64[:, ::1], int64[::1], int64[::1], int64[:, ::1],
        int64[::1], int32[::1], boolean[::1], int64[::1], int64, int64[::1], int64, int64, *_QUOTA, boolean[::1],
    ),
    cache=True,
)  # fmt: skip
def _claim(
    start: Any, rows: Any, shapes: Any, places: Any, first: Any, gang: Any,
    base: int, signatures: Any, most: Any, heads: Any, ends: Any, alloc: Any, unit: Any,
    owner: Any, released: Any, missing: Any, place: int, out: Any, count: int,
    cluster: int, left: Any, slot: Any, slot_left: Any, stopped: Any,
) -> int:  # fmt: skip
    """Claim from some lanes, in order, until nothing is missing; lists them after `count` others.

    Passes over what is a gang's own, what adds nothing wanted, and what the quota of `cluster` has
    no room for (-1: it is not asked); then it says so in `stopped`.
    """
    size = 0
    for at in range(len(signatures)):
        if not _helps(most, signatures[at], missing):
            continue
        lane = base + signatures[at]
        head, end = first[lane], start[lane + 1]
        while head < end and owner[rows[head]] >= 0:
            head += 1
        first[lane] = head
        if head < end:
            heads[size], ends[size] = head, end
            up = size
            size += 1
            while up > 0:
                parent = (up - 1) // 2
                if places[heads[parent]] <= places[heads[up]]:
                    break
                heads[parent], heads[up] = heads[up], heads[parent]
                ends[parent], ends[up] = ends[up], ends[parent]
                up = parent
    while size > 0:
        head = heads[0]
        row, shape = rows[head], np.int64(shapes[head])
        if owner[row] < 0 and (gang[head] < 0 or released[gang[head]]):
            whole = _units(alloc, shape, unit, missing)
            code = slot[row] if cluster >= 0 and len(slot) > 0 else -1
            if whole == 0:
                pass
            elif cluster >= 0 and left[cluster] <= 0:
                stopped[place] = True
                return count
            elif code >= 0 and slot_left[code] <= 0:
                stopped[place] = True
            else:
                owner[row] = place
                out[count] = row
                count += 1
                if cluster >= 0:
                    left[cluster] -= 1
                    if code >= 0:
                        slot_left[code] -= 1
                if not _lower(alloc, shape, unit, whole, missing):
                    return count
        heads[0] += 1
        if heads[0] == ends[0]:
            size -= 1
            heads[0], ends[0] = heads[size], ends[size]
        if size > 1:
            _sink(heads, ends, size, places)
    return count


@njit(
    int64(
        int64[::1], int64[::1], int64, boolean[::1], int64[::1], int64[:, ::1], _frozen(uint32),
        int32[::1], int64[::1], int64,
    ),
    cache=True,
)  # fmt: skip
def _home(
    own: Any, flying: Any, place: int, fits: Any, domain: Any, alloc: Any, shape: Any,
    owner: Any, missing: Any, nothing: int,
) -> int:  # fmt: skip
    """Claim for a gang that its own machines cover in one domain; `nothing` if they do not."""
    total = np.zeros(len(missing), np.int64)
    found = nothing
    for part in range(2):
        rows = own if part == 0 else flying
        for at in range(len(rows)):
            kind = shape[rows[at]]
            if owner[rows[at]] >= 0 or not fits[kind]:
                continue
            if found == nothing:
                found = domain[kind]
            elif found != domain[kind]:
                return nothing
            for d in range(len(missing)):
                total[d] += alloc[kind, d]
    for d in range(len(missing)):
        if total[d] < missing[d]:
            return nothing
    if found == nothing:
        return nothing
    unit = np.zeros(len(missing), np.int64)
    for part in range(2):
        rows = own if part == 0 else flying
        for at in range(len(rows)):
            kind = np.int64(shape[rows[at]])
            if owner[rows[at]] >= 0 or not fits[kind]:
                continue
            if _units(alloc, kind, unit, missing) == 0:
                continue
            owner[rows[at]] = place
            if not _lower(alloc, kind, unit, -1, missing):
                return found
    return found


@njit(
    int64(
        int64, int64, boolean[::1], int64[:, ::1], int64[::1], int64[::1], int64[:, ::1],
        boolean[:, ::1], int64[::1], int32[::1], int64[:, ::1], int64[:, ::1], _frozen(uint32),
        int32[::1], *_LANES, boolean[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1],
        int64[:, ::1], int64[::1], int64[::1], int64, int64[::1], int64[::1], int64[::1], boolean[::1],
        *_QUOTA, boolean[::1],
    ),
    cache=True,
)  # fmt: skip
def credit(
    begin: int, stop: int, is_gang: Any, missing: Any, group: Any, kind: Any, units: Any,
    fits: Any, kind_start: Any, kind_signatures: Any, most: Any, alloc: Any, shape: Any, owner: Any,
    start: Any, rows: Any, shapes: Any, places: Any, first: Any, gang: Any,
    released: Any, number: Any, own_start: Any, own_rows: Any, flight_start: Any, flight_rows: Any,
    domains: Any, same: Any, choice: Any, signatures: int, heads: Any, ends: Any, out: Any,
    plain_only: Any, left: Any, slot: Any, slot_left: Any, stopped: Any,
) -> int:  # fmt: skip
    """Credit needs in walk order up to the first gang its own machines do not cover; where it is.

    `group` is where a need's Configured machines lie, -1 if its cluster has none; Configuring ones
    lie in the next. `choice` gets the domain of every gang that came home.
    """
    for place in range(begin, stop):
        wanted = missing[place]
        if not _is_short(wanted):
            continue
        flying = flight_rows[flight_start[place] : flight_start[place + 1]]
        if is_gang[place]:
            if plain_only[0]:
                continue
            own = own_rows[own_start[number[place]] : own_start[number[place] + 1]]
            found = _home(
                own, flying, place, fits[kind[place]], domains[same[place]], alloc, shape,
                owner, wanted, -1,
            )  # fmt: skip
            if found < 0:
                return place
            choice[place] = found
            continue
        chosen = kind_signatures[kind_start[kind[place]] : kind_start[kind[place] + 1]]
        for state in range(2):
            if group[place] >= 0 and _is_short(wanted):
                _claim(
                    start, rows, shapes, places, first, gang,
                    (group[place] + state) * signatures, chosen, most, heads, ends, alloc, units[place],
                    owner, released, wanted, place, out, 0, -1, left, slot, slot_left, stopped,
                )  # fmt: skip
        for at in range(len(flying)):
            row = flying[at]
            if not _is_short(wanted):
                break
            if owner[row] >= 0 or not fits[kind[place], shape[row]]:
                continue
            whole = _units(alloc, np.int64(shape[row]), units[place], wanted)
            if whole != 0:
                owner[row] = place
                _lower(alloc, np.int64(shape[row]), units[place], whole, wanted)
    return stop


@njit(
    int64(
        int64[::1], int64[:, ::1], int64[::1], int64[:, ::1], int64[::1], int32[::1],
        int64[:, ::1], int64[:, ::1], int32[::1], *_LANES, *_LANES, boolean[::1], int64[::1], int64[::1],
        int64[::1], int64[::1], int64[::1], *_QUOTA, boolean[::1],
    ),
    cache=True,
)  # fmt: skip
def acquire(
    needs: Any, missing: Any, kind: Any, units: Any, kind_start: Any, kind_signatures: Any,
    most: Any, alloc: Any, owner: Any,
    start: Any, rows: Any, shapes: Any, places: Any, first: Any, gang: Any,
    start2: Any, rows2: Any, shapes2: Any, places2: Any, first2: Any, gang2: Any,
    released: Any, heads: Any, ends: Any, out: Any, counts: Any, cluster: Any,
    left: Any, slot: Any, slot_left: Any, stopped: Any,
) -> int:  # fmt: skip
    """Acquire for plain needs, one after the other: Idle, then Speculative, until covered.

    Lists the machines in `out`, and in `counts` how many there are up to and with each need.
    """
    count = 0
    for at in range(len(needs)):
        place = needs[at]
        chosen = kind_signatures[kind_start[kind[place]] : kind_start[kind[place] + 1]]
        wanted = missing[place]
        count = _claim(
            start, rows, shapes, places, first, gang, 0, chosen, most, heads, ends, alloc, units[place],
            owner, released, wanted, place, out, count, cluster[place], left, slot, slot_left,
            stopped,
        )  # fmt: skip
        if _is_short(wanted):
            count = _claim(
                start2, rows2, shapes2, places2, first2, gang2, 0, chosen, most, heads, ends, alloc,
                units[place], owner, released, wanted, place, out, count, cluster[place], left,
                slot, slot_left, stopped,
            )  # fmt: skip
        counts[at] = count
    return count


@njit(int64(int64[::1], int64[::1], int64[::1], int32[::1], boolean[::1]), cache=True)
def with_surplus(gangs: Any, own_start: Any, own_rows: Any, owner: Any, released: Any) -> int:
    """Release those of the gangs that have unclaimed machines of their own; how many there are."""
    found = 0
    for at in range(len(gangs)):
        gang = gangs[at]
        for own in range(own_start[gang], own_start[gang + 1]):
            if owner[own_rows[own]] < 0:
                released[gang] = True
                found += 1
                break
    return found
