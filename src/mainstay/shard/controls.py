"""Live controls: what people hold back for a while, beside the configuration that always wins.

A control can only restrict further. It has a reason, a name and an end; it survives a restart, so
that a shard that is paused and dies does not come back acting, and one that has ended stays so.
"""

import asyncio
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Protocol

from mainstay.model.errors import Rejected, Unavailable
from mainstay.model.ids import ClusterId, is_id
from mainstay.runtime.aside import Aside
from mainstay.runtime.clock import Clock
from mainstay.runtime.one_at_a_time import OneAtATime
from mainstay.shard.events import Event
from mainstay.shard.ports import Journal
from mainstay.shard.restrictions import NO_LIMITS, Limits, Restrictions, Stance

CONTROLS_MAX: Final = 1_000
LASTS_MAX_S: Final = 30 * 86_400.0
"""What should hold for longer belongs in the configuration."""

TEXT_MAX: Final = 500

AGAIN_S: Final = 10.0
"""A disk that did not take what is in force is asked again after so long."""

Key = tuple[str, str]
"""There is one control of a kind for the shard and for each cluster."""


class ControlKind(StrEnum):
    """What a control holds back."""

    PAUSE = "pause"
    """Everything; counted as suppressed."""

    SHADOW = "shadow"
    """Everything; counted as what would have been done."""

    RECLAIM_CAP = "reclaim_cap"
    """Reclaims above a share of a cluster's machines per cycle."""

    ACTION_LIMIT = "action_limit"
    """Actions above a number per cycle."""


_STANCES: Final = {ControlKind.PAUSE: Stance.PAUSE, ControlKind.SHADOW: Stance.SHADOW}


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """One control, for the whole shard or for one cluster."""

    kind: ControlKind
    cluster: ClusterId | None = None
    """None: the whole shard."""

    value: float = 0.0
    """Of a reclaim cap the share, of an action limit the number; else 0."""

    reason: str
    by: str
    set_at_s: float
    expires_at_s: float
    """Both in wall-clock time: a control goes on while the shard is down."""

    def __post_init__(self) -> None:
        if self.cluster is not None and not is_id(self.cluster):
            raise Rejected(f"a control's cluster is not a cluster id: {self.cluster[:80]!r}")
        for name, text in ("reason", self.reason), ("name of whoever sets it", self.by):
            if not text.strip() or not text.isprintable() or len(text) > TEXT_MAX:
                form = f"one line of 1 to {TEXT_MAX} characters"
                raise Rejected(f"a control needs a {name}, {form}: {text[:80]!r}")
        if not 0 < self.expires_at_s - self.set_at_s <= LASTS_MAX_S:
            lasts_s = self.expires_at_s - self.set_at_s
            raise Rejected(f"a control lasts more than 0 and at most {LASTS_MAX_S:g} s: {lasts_s}")
        _check_value(self.kind, self.value)

    @property
    def key(self) -> Key:
        """Whose place it takes."""
        return self.kind, self.cluster or ""

    @property
    def limits(self) -> Limits:
        """What it limits."""
        if self.kind is ControlKind.RECLAIM_CAP:
            return replace(NO_LIMITS, reclaim_fraction_max=self.value)
        if self.kind is ControlKind.ACTION_LIMIT:
            return replace(NO_LIMITS, actions_per_cycle_max=int(self.value))
        return NO_LIMITS


def _check_value(kind: ControlKind, value: float) -> None:
    match kind:
        case ControlKind.RECLAIM_CAP:
            if not 0 < value <= 1:
                raise Rejected(f"a reclaim cap is a share above 0 and at most 1: {value}")
        case ControlKind.ACTION_LIMIT:
            if not (math.isfinite(value) and value >= 1 and value == int(value)):
                raise Rejected(f"an action limit is a whole number from 1: {value}")
        case ControlKind.PAUSE | ControlKind.SHADOW:
            if value:
                raise Rejected(f"{kind} takes no value: {value}")


def restrict(fixed: Restrictions, controls: Iterable[Control]) -> Restrictions:
    """The configuration with these controls: never less than either."""
    shard, limits = fixed.shard, fixed.limits
    clusters, cluster_limits = dict(fixed.clusters), dict(fixed.cluster_limits)
    for control in controls:
        stance, cluster = _STANCES.get(control.kind, Stance.ACT), control.cluster
        if cluster is None:
            shard = max(shard, stance)
            limits = limits.tightened(control.limits)
        elif stance:
            clusters[cluster] = max(clusters.get(cluster, Stance.ACT), stance)
        else:
            before = cluster_limits.get(cluster, NO_LIMITS)
            cluster_limits[cluster] = before.tightened(control.limits)
    return replace(
        fixed, shard=shard, limits=limits, clusters=clusters, cluster_limits=cluster_limits
    )


class KeptControls(Protocol):
    """Where controls survive a restart."""

    @property
    def value(self) -> tuple[Control, ...]:
        """As they were kept last."""

    def keep(self, value: tuple[Control, ...]) -> None:
        """Keep these from now on; Unavailable, and then nothing is sure."""


class Controls:
    """The controls in force. Lives on the event loop, and the file is written beside it.

    What is set restricts at once and is in force when it is kept; what is lifted restricts until
    that is kept. What cannot be kept is refused, and all is as before.
    """

    def __init__(
        self,
        clock: Clock,
        journal: Journal,
        kept: KeptControls,
        fixed: Restrictions,
        *,
        aside: Aside,
    ) -> None:
        self._clock = clock
        self._journal = journal
        self._kept = kept
        self._fixed = fixed
        self._aside = aside
        self._whole = OneAtATime()
        self._controls = {control.key: control for control in kept.value}
        self._coming: list[Control] = []
        """Set, and not kept yet."""

        self._restricted: tuple[tuple[Control, ...], Restrictions] = (), fixed
        self._doubt = asyncio.Event()
        """The file may say something else than what is in force."""

    def in_force(self) -> tuple[Control, ...]:
        """Those that have not expired, by kind and cluster."""
        now = self._clock.now_s()
        for control in [c for c in self._controls.values() if c.expires_at_s <= now]:
            del self._controls[control.key]
            self._doubt.set()
            self._ended(control, how="expired", by="", why="")
        return tuple(sorted(self._controls.values(), key=lambda control: control.key))

    def restrictions(self) -> Restrictions:
        """The configuration and all that restricts it. The same object while that is the same."""
        now = self._clock.now_s()
        coming = (control for control in self._coming if control.expires_at_s > now)
        controls = (*self.in_force(), *coming)
        if controls != self._restricted[0]:
            self._restricted = controls, restrict(self._fixed, controls)
        return self._restricted[1]

    async def run(self) -> None:
        """Have the file say what is in force whenever it may not, until cancelled."""
        while True:
            await self._doubt.wait()
            self._doubt.clear()
            try:
                await self._whole(self._keep(self._controls))
            except Unavailable as error:
                self._journal.noticed(Event.CONTROLS_NOT_SAVED, why=error.message)
                await asyncio.sleep(AGAIN_S)

    async def set(
        self,
        kind: ControlKind,
        *,
        cluster: ClusterId | None = None,
        value: float = 0.0,
        reason: str,
        by: str,
        lasts_s: float,
    ) -> Control:
        """Hold something back from now on, in the place of the control of that kind there was.

        Unavailable when the disk does not take it.
        """
        now = self._clock.now_s()
        control = Control(
            kind=kind,
            cluster=cluster,
            value=value,
            reason=reason,
            by=by,
            set_at_s=now,
            expires_at_s=now + lasts_s,
        )
        self._check_restricts(control)
        others = len(self._coming) + sum(each.key != control.key for each in self.in_force())
        if others >= CONTROLS_MAX:
            raise Rejected(f"there are too many controls already: {others} (lift some)")
        self._coming.append(control)
        return await self._whole(self._set(control))

    async def _set(self, control: Control) -> Control:
        try:
            await self._keep(self._controls | {control.key: control})
        finally:
            self._coming.remove(control)
        self._controls[control.key] = control
        self._journal.noticed(
            Event.CONTROL_SET,
            reason=control.kind,
            cluster=control.cluster or "",
            value=control.value,
            why=control.reason,
            by=control.by,
            expires_at_s=control.expires_at_s,
        )
        return control

    async def lift(
        self, kind: ControlKind, *, cluster: ClusterId | None = None, reason: str, by: str
    ) -> Control:
        """Take a control back before its time. Unavailable when the disk does not take it."""
        for name, text in ("reason", reason), ("name", by):
            if not text.strip():
                raise Rejected(f"lifting a control needs a {name}: {text!r}")
        return await self._whole(self._lift((kind, cluster or ""), reason=reason, by=by))

    async def _lift(self, key: Key, *, reason: str, by: str) -> Control:
        self.in_force()
        control = self._controls.get(key)
        if control is None:
            raise Rejected(f"no such control is in force: {key[0]} of {key[1] or 'the shard'}")
        await self._keep({other: each for other, each in self._controls.items() if other != key})
        if self._controls.pop(key, None) is not None:  # else it has expired meanwhile
            self._ended(control, how="lifted", by=by, why=reason)
        return control

    def _check_restricts(self, control: Control) -> None:
        """A limit that the configuration already undercuts would look like one and be none."""
        for name in ("reclaim_fraction_max", "actions_per_cycle_max"):
            fixed, value = getattr(self._fixed.limits, name), getattr(control.limits, name)
            if fixed and value >= fixed:
                told = f"{control.kind} {control.value:g}, the configuration has {name} {fixed:g}"
                raise Rejected(f"a control can only restrict further: {told}")

    async def _keep(self, controls: Mapping[Key, Control]) -> None:
        value = tuple(controls[key] for key in sorted(controls))
        try:
            await self._aside(lambda: self._kept.keep(value))
        except BaseException:
            self._doubt.set()
            raise

    def _ended(self, control: Control, *, how: str, by: str, why: str) -> None:
        self._journal.noticed(
            Event.CONTROL_ENDED,
            reason=control.kind,
            cluster=control.cluster or "",
            how=how,
            by=by,
            why=why,
        )
