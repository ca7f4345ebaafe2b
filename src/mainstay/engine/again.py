"""A demand in columns that is nearly one we know: what is the same is not looked at again.

Codes go on from those of the demand they began with and are never given twice, so that what is
known of a code stays true from one changed demand to the next.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mainstay.engine.asked import Amounts, Asked, Coder, Codes, Profiles, ask
from mainstay.model.ids import ClusterId, Fingerprint
from mainstay.model.need import Need, Requirement
from mainstay.model.resources import Units

STALE_MAX: Final = 256
"""So many values more than twice those that are asked for may be left of earlier demands."""

STRANGE_MAX: Final = 64
"""More new profiles than these are made into columns faster together with all others."""


def ask_again(needs: Sequence[Need], last: Asked) -> Asked | None:
    """The columns of a demand, most of whose needs are those of another; its codes go on.

    None where that would save little, or leave too much behind that nobody asks for any more.
    """
    if needs is last.needs:
        return last
    place = {id(need): at for at, need in enumerate(last.needs)}
    origin = np.array([place.get(id(need), -1) for need in needs], dtype=np.intp)
    new = np.flatnonzero(origin < 0)
    recoder = Recoder(last)
    if 2 * len(new) > len(needs) or recoder.strange(needs[at] for at in new.tolist()) > STRANGE_MAX:
        return None
    profile, aggregate, min_unit = (
        column[origin] for column in (last.profile, last.aggregate, last.min_unit)
    )
    for at in new.tolist():
        profile[at], aggregate[at], min_unit[at] = recoder.codes(needs[at])
    profiles, amounts = recoder.tables
    if _is_stale(len(profiles.values), profile) or _is_stale(len(amounts), aggregate, min_unit):
        return None
    cluster: Coder[ClusterId] = Coder()
    return Asked(
        needs=tuple(needs),
        profiles=profiles,
        profile=profile,
        cluster=np.array([cluster(need.cluster) for need in needs], dtype=np.int32),
        clusters=cluster.values,
        amounts=amounts,
        aggregate=aggregate,
        min_unit=min_unit,
        names=last.names.union(name for more in amounts[len(last.amounts) :] for name, _ in more),
    )


def _is_stale(known: int, *columns: Codes) -> bool:
    """Whether far more values are known than are asked for."""
    return known > 2 * len(np.unique(np.concatenate(columns))) + STALE_MAX


class Recoder:
    """Changes rows of one demand, again and again; each time from the demand it began with."""

    def __init__(self, asked: Asked) -> None:
        self._base = asked
        self._profiles = asked.profiles
        self._amounts = list(asked.amounts)

    @cached_property
    def _profile_codes(self) -> dict[Fingerprint, int]:
        return {p.fingerprint: code for code, p in enumerate(self._profiles.values)}

    @cached_property
    def _set_codes(self) -> dict[tuple[Requirement, ...], int]:
        return {asked: code for code, asked in enumerate(self._profiles.requirements)}

    @cached_property
    def _amount_codes(self) -> dict[Amounts, int]:
        return {amounts: code for code, amounts in enumerate(self._amounts)}

    @cached_property
    def _arrival(self) -> NDArray[np.int64]:
        return np.array([need.arrival_nanos for need in self._base.needs], dtype=np.int64)

    @cached_property
    def _rank(self) -> NDArray[np.int64]:
        """The place of every cluster among their names."""
        names = self._base.clusters
        ranks = np.empty(len(names), dtype=np.int64)
        ranks[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
        return ranks

    @cached_property
    def _order(self) -> NDArray[np.intp]:
        """As long as no priority changes."""
        return self._sorted(self._base.profile)

    def _sorted(self, profile: Codes) -> NDArray[np.intp]:
        priority = self._profiles.priority[profile]
        return np.lexsort((self._rank[self._base.cluster], self._arrival, -priority))

    def changed(self, at: Sequence[int], rows: Sequence[Need]) -> tuple[Asked, NDArray[np.intp]]:
        """Rows instead of the first of those at some places, the rest of these left out; in the
        order of mainstay.model.needs.NeedsTable.snapshot.

        A row keeps its cluster and when it was told. Also the place that each row had in the
        demand it began with; -1 for the new ones.
        """
        base = self._base
        profile, aggregate, min_unit = (
            column.copy() for column in (base.profile, base.aggregate, base.min_unit)
        )
        needs = list(base.needs)
        for place, need in zip(at, rows, strict=False):
            needs[place] = need
            profile[place] = self._profile(need)
            aggregate[place] = self._amount(need.aggregate)
            min_unit[place] = self._amount(need.min_unit)
        priority = self._profiles.priority
        is_moved = (priority[profile[list(at)]] != priority[base.profile[list(at)]]).any()
        order = self._sorted(profile) if is_moved else self._order
        gone = np.zeros(len(needs), dtype=np.bool_)
        gone[list(at[len(rows) :])] = True
        order = order[~gone[order]]
        origin = np.arange(len(needs))
        origin[list(at[: len(rows)])] = -1
        asked = replace(
            base,
            needs=tuple(map(needs.__getitem__, order.tolist())),
            profiles=self._profiles,
            profile=profile[order],
            cluster=base.cluster[order],
            amounts=self.tables[1],
            aggregate=aggregate[order],
            min_unit=min_unit[order],
        )
        return asked, origin[order]

    def strange(self, needs: Iterable[Need]) -> int:
        """How many profiles of theirs are not known."""
        return len({need.profile.fingerprint for need in needs} - self._profile_codes.keys())

    def codes(self, need: Need) -> tuple[int, int, int]:
        """Of its profile, of all it asks for, and of its smallest unit."""
        return self._profile(need), self._amount(need.aggregate), self._amount(need.min_unit)

    @property
    def tables(self) -> tuple[Profiles, tuple[Amounts, ...]]:
        """What all codes so far stand for."""
        return self._profiles, tuple(self._amounts)

    def _amount(self, units: Units) -> int:
        amounts = tuple(sorted(item for item in units.items() if item[1]))
        if amounts not in self._amount_codes:
            self._amount_codes[amounts] = len(self._amounts)
            self._amounts.append(amounts)
        return self._amount_codes[amounts]

    def _profile(self, need: Need) -> int:
        known = self._profile_codes
        if need.profile.fingerprint not in known:
            made = ask([need]).profiles
            new = [at for at, p in enumerate(made.values) if p.fingerprint not in known]
            known |= {made.values[at].fingerprint: len(known) + n for n, at in enumerate(new)}
            self._profiles = self._with(made, new)
        return known[need.profile.fingerprint]

    def _with(self, made: Profiles, new: list[int]) -> Profiles:
        """The profiles so far and some of others; the codes of all of them are known."""
        so_far, known = self._profiles, self._profile_codes
        asked = [made.requirements[code] for code in made.requirement_set[new].tolist()]
        for each in asked:
            self._set_codes.setdefault(each, len(self._set_codes))
        plain = [made.values[code].fingerprint for code in made.without_same[new].tolist()]
        columns = {
            name: np.concatenate([getattr(so_far, name), getattr(made, name)[new]])
            for name in ("priority", "interruption", "reclamation", "is_gang", "is_spread")
        }
        return Profiles(
            values=(*so_far.values, *(made.values[at] for at in new)),
            requirements=tuple(self._set_codes),
            requirement_set=_longer(so_far.requirement_set, [self._set_codes[r] for r in asked]),
            without_same=_longer(so_far.without_same, [known[each] for each in plain]),
            **columns,
        )


def _longer(codes: Codes, more: Sequence[int]) -> Codes:
    return np.concatenate([codes, np.array(more, dtype=codes.dtype)])
