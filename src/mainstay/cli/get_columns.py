"""The columns of `mainstay get`, as tables."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from mainstay.cli.streaming import Column
from mainstay.cli.words import age, amounts, counts, dollars, held_back, of_nanos
from mainstay.model.money_views import MoneyRows
from mainstay.runtime.clock import SystemClock

SHORT: Final = 8
"""So many characters of a fingerprint are shown; `explain` takes as few."""


class Of(NamedTuple):
    """A row, and whose it is."""

    shard: str
    row: Any


class Shown(NamedTuple):
    """A kind of rows: its columns, and what a row is called."""

    noun: str
    columns: tuple[Column, ...]
    name: Callable[[Of], str]
    """As other commands take it."""

    of: Callable[[Any], object] | None = None
    """What of a row no other row has, where its name does not do."""

    def identity(self, each: Of) -> object:
        """What a row keeps while it changes."""
        return each.shard, self.name(each) if self.of is None else self.of(each.row)


def _called(name: str) -> Callable[[Of], str]:
    return lambda each: str(getattr(each.row, name))


def _plain(name: str, *, wide: bool = False) -> Column:
    return Column(name.replace("_", " "), lambda each: getattr(each.row, name), wide)


def _made(name: str, value: Callable[[Any], object], *, wide: bool = False) -> Column:
    return Column(name, lambda each: value(each.row), wide)


def _short(fingerprint: str) -> str:
    return fingerprint[:SHORT]


def _since(at_s: float) -> str:
    return age(SystemClock().now_s() - at_s) if at_s else ""


def _moment(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if at_s else ""


def _until(at_s: float) -> str:
    return age(at_s - SystemClock().now_s()) if at_s else "never"


def _at_risk(row: Any) -> str:
    """What a drain puts at risk, in one cell."""
    if row.pinned:
        return "pinned"
    return dollars(row.at_risk_dollars) if row.at_risk_dollars else ""


def _serving() -> Column:
    """Of the machines for a need those that it can use by now."""
    return _made("serving", lambda row: row.progress.serving)


def _held_back() -> Column:
    """So many with which nothing is begun, and why."""
    return _made("held back", lambda row: held_back(row.progress))


def _saved(row: Any) -> str:
    """What nobody pays any more; a preempted machine goes on costing, and no other is bought."""
    if not row.saved_per_hour:
        return ""
    not_bought = " not bought" if row.kind == "preempt" else ""
    return f"{dollars(row.saved_per_hour)}{not_bought}"


def need_name(each: Of) -> str:
    """As `explain need` takes it."""
    row = each.row
    return "/".join(filter(None, (row.cluster, _short(row.fingerprint), row.group)))


MACHINES: Final = Shown(
    "machine",
    (
        _plain("id"),
        _plain("state"),
        _plain("cluster"),
        _made("type", lambda row: row.instance_type),
        _plain("zone"),
        _plain("provider"),
        _made("$/hour", lambda row: dollars(row.price_per_hour)),
        _made("capacity", lambda row: row.capacity_type, wide=True),
        _made("need", lambda row: _short(row.need)),
        _plain("group", wide=True),
        _plain("action"),
        _made("idle", lambda row: _since(row.idle_since_s), wide=True),
        _made("interruption", lambda row: f"{row.interruption_probability:.4f}", wide=True),
    ),
    _called("id"),
)

NEEDS: Final = Shown(
    "need",
    (
        _plain("cluster"),
        _made("need", lambda row: _short(row.fingerprint)),
        _plain("group"),
        _plain("priority"),
        _made("asked", lambda row: amounts(row.asked)),
        _made("missing", lambda row: amounts(row.missing)),
        _plain("reason"),
        _made("age", lambda row: row.age or ""),
        _plain("machines"),
        _serving(),
        _held_back(),
        _plain("parked"),
        _made("unit", lambda row: amounts(row.min_unit), wide=True),
        _plain("domain", wide=True),
        _plain("asks_for", wide=True),
    ),
    need_name,
    lambda row: (row.cluster, row.fingerprint, row.group),
)

CLUSTERS: Final = Shown(
    "cluster",
    (
        _plain("cluster"),
        _plain("connected"),
        _plain("heard"),
        _plain("needs"),
        _plain("unmet"),
        _serving(),
        _made("coming", lambda row: row.progress.coming),
        _held_back(),
        _made("machines", lambda row: counts(row.machines)),
        _made("$/hour", lambda row: dollars(row.spend_per_hour)),
        _made("held roll-ups", lambda row: row.held_rollups or ""),
        _made("since", lambda row: _since(row.since_s), wide=True),
        _made("quota", lambda row: row.quota if row.limited else "any", wide=True),
        _made("waiting", lambda row: row.waiting_frames, wide=True),
        _made("version", lambda row: row.protocol_version, wide=True),
    ),
    _called("cluster"),
)

ACTIONS: Final = Shown(
    "action",
    (
        _made("when", lambda row: _moment(row.at_s)),
        _plain("cycle"),
        _plain("kind"),
        _plain("machine"),
        _plain("cluster"),
        _made("need", lambda row: _short(row.need)),
        _plain("disposition"),
        _made("how", lambda row: row.outcome or row.reason),
        _made("seconds", lambda row: f"{row.seconds:.1f}"),
        _plain("provider"),
        _plain("decided", wide=True),
        _plain("group", wide=True),
        _made("saves/hour", _saved),
        _made("at risk", _at_risk),
        _made("$/hour", lambda row: dollars(row.price_per_hour), wide=True),
        _plain("detail", wide=True),
    ),
    _called("machine"),
    lambda row: row.id,
)

SHORTFALLS: Final = Shown(
    "shortfall",
    (
        _made("need", lambda row: _short(row.fingerprint)),
        _plain("priority"),
        _made("missing", lambda row: amounts(row.missing)),
        _plain("age"),
        _plain("band"),
        _made("reasons", lambda row: ", ".join(row.reasons)),
        _made("clusters", lambda row: _named(row.clusters, row.clusters_in_all)),
        _plain("needs", wide=True),
        _plain("asks_for", wide=True),
    ),
    lambda each: _short(each.row.fingerprint),
    lambda row: row.fingerprint,
)

PROVIDERS: Final = Shown(
    "provider",
    (
        _plain("name"),
        _plain("health"),
        _plain("machines"),
        _made("listed", lambda row: _since(row.listed_at_s) or "never"),
        _made("failures", lambda row: row.failures or ""),
        _plain("why"),
        _plain("incremental", wide=True),
    ),
    _called("name"),
)

CONTROLS: Final = Shown(
    "control",
    (
        _plain("kind"),
        _made("cluster", lambda row: row.cluster or "(all)"),
        _made("value", lambda row: f"{row.value:g}" if row.value else ""),
        _made("ends in", lambda row: _until(row.expires_at_s)),
        _plain("by"),
        _plain("reason"),
        _made("set", lambda row: _since(row.set_at_s), wide=True),
    ),
    _called("kind"),
    lambda row: (row.kind, row.cluster),
)


WHOLE: Final = "(all)"


def _money(name: str, title: str = "", *, wide: bool = False) -> Column:
    return _made(title or name, lambda row: of_nanos(getattr(row, name)), wide=wide)


MONEY: Final = Shown(
    "money",
    (
        _made("of", lambda row: row.name),
        _made("paid for", lambda row: row.hosts),
        _money("spend_per_hour", "$/hour"),
        _money("spent"),
        _made("waste/hour", lambda row: of_nanos(row.idle_per_hour + row.unclaimed_per_hour)),
        _made("waste", lambda row: of_nanos(row.idle + row.unclaimed)),
        _money("saving_per_hour", "saves/hour"),
        _money("saving", "saved"),
        _money("idle_per_hour", "idle/hour", wide=True),
        _money("idle", wide=True),
        _money("unclaimed_per_hour", "unclaimed/hour", wide=True),
        _money("unclaimed", wide=True),
        _money("unpriced_per_hour", "no price/hour", wide=True),
        _money("unpriced", "no price", wide=True),
    ),
    _called("name"),
)


def money_remarks(told: MoneyRows) -> Iterator[str]:
    """What is to be known about the numbers of one shard."""
    who = f"Shard {told.stamp.shard}"
    yield f"{who}: counted for {age(told.at_s - told.since_s)}."
    if told.as_seen:
        yield (
            f"{who}: {', '.join(told.as_seen)} does not tell when it charges;"
            " its moments are those at which the shard saw a change."
        )
    if told.total.unpriced:
        amount = of_nanos(told.total.unpriced)
        yield f"{who}: of ${amount} no on-demand price is listed; no saving is told of it."


def _named(clusters: tuple[str, ...], in_all: int) -> str:
    more = in_all - len(clusters)
    return ",".join(clusters) + (f" and {more} more" if more > 0 else "")
