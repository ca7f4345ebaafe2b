"""What people may have done: each a form that was checked, and a word about what became of it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mainstay.dashboard.asking import TENANCY, Asking
from mainstay.dashboard.html import address
from mainstay.dashboard.page import Notice
from mainstay.model import questions as q
from mainstay.model.errors import Rejected
from mainstay.model.state import State
from mainstay.tenancy.states import CapacityState, Status

GPU_DIGITS_MAX: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What was sent."""

    fields: Mapping[str, str]
    names: Mapping[str, str]
    """Parts of the path that stand for something."""

    by: str
    """Who sent it."""

    def text(self, name: str) -> str:
        """A field, without the spaces around it."""
        return self.fields.get(name, "").strip()

    @property
    def nonce(self) -> str:
        """What tells this form from any other; without it an old answer would be given again."""
        if not (said := self.text("nonce")):
            raise Rejected("this form is not complete: reload the page")
        return said

    def number(self, name: str) -> float:
        """A field that holds a number; empty is zero."""
        text = self.text(name)
        try:
            return float(text or 0)
        except ValueError as error:
            raise Rejected(f"{name} is not a number: {text[:80]}") from error


@dataclass(frozen=True, slots=True)
class Done:
    """Where to go on, and what to say there."""

    to: str
    notice: Notice


Order = Callable[[Asking, Form], Awaitable[Done]]


async def set_control(asking: Asking, form: Form) -> Done:
    """Hold a shard back."""
    shard, minutes = form.text("shard"), form.number("minutes")
    request = q.SetControlRequest(
        kind=form.text("kind"),
        cluster=form.text("cluster"),
        value=form.number("value"),
        reason=form.text("reason"),
        for_s=minutes * 60,
        by=form.by,
        even_if_unknown=bool(form.text("unknown")),
    )
    made = await asking.shard(shard).set_control(request)
    asking.forget(shard)
    said = f"{made.kind.replace('_', ' ')} of {shard} is set for {minutes:g} minutes."
    return Done("/controls", Notice(said))


async def lift_control(asking: Asking, form: Form) -> Done:
    """Let it go on."""
    shard = form.text("shard")
    request = q.LiftControlRequest(
        kind=form.text("kind"),
        cluster=form.text("cluster"),
        reason=form.text("reason") or "lifted on the dashboard",
        by=form.by,
    )
    lifted = await asking.shard(shard).lift_control(request)
    asking.forget(shard)
    return Done("/controls", Notice(f"{lifted.kind.replace('_', ' ')} of {shard} is lifted."))


async def create_allocation(asking: Asking, form: Form) -> Done:
    """Ask for capacity, and wait for it if that was said."""
    sku, region, gpus = _offer(form.text("offer"))
    body: dict[str, Any] = {"sku": sku, "gpus": gpus, "region": region}
    if form.text("key"):
        body["ssh_key_ids"] = [_key(form)]
    made = await asking.tenants().post(
        "/capacity-requests" if form.text("wait") else "/allocations", body,
        key=f"dashboard-{form.nonce}", by=form.by, project_id=form.text("project"),
    )  # fmt: skip
    asking.forget(TENANCY)
    if made["allocation_id"] is None:
        waits = str(made["request_id"])
        return Done(address("allocations", waits), Notice(f"{waits} waits for room."))
    identity = str(made["allocation_id"])
    return Done(address("allocations", identity), Notice(f"Allocation {identity} is asked for."))


def _offer(text: str) -> tuple[str, str, int]:
    sku, region, gpus = (*text.split("@"), "", "", "")[:3]
    if not (sku and region and gpus.isdecimal() and len(gpus) <= GPU_DIGITS_MAX):
        raise Rejected(f"not in the catalogue: {text[:80]} (choose one of the list)")
    return sku, region, int(gpus)


def _key(form: Form) -> str:
    project, _, key = form.text("key").partition("@")
    if project != form.text("project"):
        raise Rejected(f"{key[:80]} is a key of {project[:80]}: choose one of the same project")
    return key


async def cancel_request(asking: Asking, form: Form) -> Done:
    """Wait no longer."""
    identity = form.names["allocation"]
    path = address(identity)[1:]
    found = await asking.tenants().get(f"/admin/capacity-requests/{path}")
    left = await asking.tenants().post(
        f"/capacity-requests/{path}/cancel", {},
        key=f"dashboard-cancel-{form.nonce}", by=form.by,
        project_id=found["project_id"],
    )  # fmt: skip
    asking.forget(TENANCY)
    if left["state"] == CapacityState.PLACED:
        became = str(left["allocation_id"])
        said = f"Too late: {identity} had its room before. Release it if nobody wants it."
        return Done(address("allocations", became), Notice(said))
    if left["state"] != CapacityState.CANCELLED:
        return Done(address("allocations", identity), Notice(f"It is {left['state']} already."))
    return Done(address("allocations", identity), Notice("It is waited for no longer."))


async def release_allocation(asking: Asking, form: Form) -> Done:
    """Give it back."""
    identity = form.names["allocation"]
    found = await asking.tenants().get(f"/admin/allocations/{address(identity)[1:]}")
    await asking.tenants().post(
        f"/allocations/{address(identity)[1:]}/release", {},
        key=f"dashboard-release-{form.nonce}", by=form.by,
        project_id=found["project_id"],
    )  # fmt: skip
    asking.forget(TENANCY)
    return Done(address("allocations", identity), Notice("It is being released."))


async def retry_allocation(asking: Asking, form: Form) -> Done:
    """Have a clean-up tried again, or ask again for what failed."""
    identity = form.names["allocation"]
    found = await asking.tenants().get(f"/admin/allocations/{address(identity)[1:]}")
    key = f"dashboard-retry-{form.nonce}"
    if found["status"] == Status.RELEASE_FAILED:
        path = f"/admin/allocations/{address(identity)[1:]}/force-release"
        await asking.tenants().post(path, {}, key=key, by=form.by)
        asking.forget(TENANCY)
        return Done(address("allocations", identity), Notice("Clean-up is tried again."))
    if found["status"] != Status.FAILED:
        raise Rejected(f"{identity} is {found['status']}: there is nothing to try again")
    body = {name: found[name] for name in ("sku", "gpus", "region")}
    body["ssh_key_ids"] = found["ssh_key_ids"]
    made = await asking.tenants().post(
        "/allocations", body, key=key, by=form.by, project_id=found["project_id"]
    )
    asking.forget(TENANCY)
    other = str(made["allocation_id"])
    return Done(address("allocations", other), Notice(f"The same is asked for again: {other}."))


async def retire_machine(asking: Asking, form: Form) -> Done:
    """Give up the record of a machine that has failed."""
    shard = form.text("shard")
    request = q.RetireRequest(machine=form.names["machine"], reason=form.text("reason"), by=form.by)
    retired = await asking.shard(shard).retire(request)
    asking.forget(shard)
    said = f"{retired.machine} is retired, which had failed: {retired.last_error or 'no word'}."
    return Done(address("machines", state=str(State.FAILED)), Notice(said))


ORDERS: Final[Mapping[str, tuple[Order, str]]] = {
    "/controls/set": (set_control, "/controls"),
    "/controls/lift": (lift_control, "/controls"),
    "/machines/{machine}/retire": (retire_machine, "/machines"),
    "/allocations/create": (create_allocation, "/allocations"),
    "/allocations/{allocation}/release": (release_allocation, "/allocations"),
    "/allocations/{allocation}/cancel": (cancel_request, "/allocations"),
    "/allocations/{allocation}/retry": (retry_allocation, "/allocations"),
}
"""By path: what is done, and where to go when it is refused."""
