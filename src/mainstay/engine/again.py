"""A demand in columns with a few rows changed: the others are not looked at again.

Codes go on from those of the demand they began with and are never given twice, so that what is
known of a code stays true from one changed demand to the next.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mainstay.engine.asked import Amounts, Asked, Codes, Profiles, ask
from mainstay.model.ids import Fingerprint
from mainstay.model.need import Need, Requirement
from mainstay.model.resources import Units


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

    def changed(self, at: Sequence[int], rows: Sequence[Need]) -> Asked:
        """Rows instead of the first of those at some places, the rest of these left out; in the
        order of mainstay.model.needs.NeedsTable.snapshot.

        A row keeps its cluster and when it was told.
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
        order = np.lexsort(
            (self._rank[base.cluster], self._arrival, -self._profiles.priority[profile])
        )
        gone = np.zeros(len(needs), dtype=np.bool_)
        gone[list(at[len(rows) :])] = True
        order = order[~gone[order]]
        return replace(
            base,
            needs=tuple(map(needs.__getitem__, order.tolist())),
            profiles=self._profiles,
            profile=profile[order],
            cluster=base.cluster[order],
            amounts=tuple(self._amounts),
            aggregate=aggregate[order],
            min_unit=min_unit[order],
        )

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
