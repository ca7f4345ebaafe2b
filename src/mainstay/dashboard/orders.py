"""What people may have done: each a form that was checked, and a word about what became of it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from mainstay.dashboard.asking import TENANCY, Asking
from mainstay.dashboard.html import address
from mainstay.dashboard.page import Notice
from mainstay.model import questions as q
from mainstay.model.errors import Rejected
from mainstay.tenancy.states import Status

BY: Final = "dashboard"


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What was sent."""

    fields: Mapping[str, str]
    names: Mapping[str, str]
    """Parts of the path that stand for something."""

    def text(self, name: str) -> str:
        """A field, without the spaces around it."""
        return self.fields.get(name, "").strip()

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
        by=BY,
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
        by=BY,
    )
    lifted = await asking.shard(shard).lift_control(request)
    asking.forget(shard)
    return Done("/controls", Notice(f"{lifted.kind.replace('_', ' ')} of {shard} is lifted."))


async def create_allocation(asking: Asking, form: Form) -> Done:
    """Ask for capacity."""
    sku, _, region = form.text("offer").partition("@")
    body = {"sku": sku, "gpus": int(form.number("gpus")), "region": region}
    made = await asking.tenants().post(
        "/allocations", body, key=f"dashboard-{form.text('nonce')}",
        project_id=form.text("project"),
    )  # fmt: skip
    asking.forget(TENANCY)
    identity = str(made["allocation_id"])
    return Done(address("allocations", identity), Notice(f"Allocation {identity} is asked for."))


async def release_allocation(asking: Asking, form: Form) -> Done:
    """Give it back."""
    identity = form.names["allocation"]
    found = await asking.tenants().get(f"/admin/allocations/{address(identity)[1:]}")
    await asking.tenants().post(
        f"/allocations/{address(identity)[1:]}/release", {},
        key=f"dashboard-release-{form.text('nonce')}", project_id=found["project_id"],
    )  # fmt: skip
    asking.forget(TENANCY)
    return Done(address("allocations", identity), Notice("It is being released."))


async def retry_allocation(asking: Asking, form: Form) -> Done:
    """Have a clean-up tried again, or ask again for what failed."""
    identity = form.names["allocation"]
    found = await asking.tenants().get(f"/admin/allocations/{address(identity)[1:]}")
    key = f"dashboard-retry-{form.text('nonce')}"
    if found["status"] == Status.RELEASE_FAILED:
        path = f"/admin/allocations/{address(identity)[1:]}/force-release"
        await asking.tenants().post(path, {}, key=key)
        asking.forget(TENANCY)
        return Done(address("allocations", identity), Notice("Clean-up is tried again."))
    if found["status"] != Status.FAILED:
        raise Rejected(f"{identity} is {found['status']}: there is nothing to try again")
    body = {name: found[name] for name in ("sku", "gpus", "region")}
    body["ssh_key_ids"] = found["ssh_key_ids"]
    made = await asking.tenants().post(
        "/allocations", body, key=key, project_id=found["project_id"]
    )
    asking.forget(TENANCY)
    other = str(made["allocation_id"])
    return Done(address("allocations", other), Notice(f"The same is asked for again: {other}."))


ORDERS: Final[Mapping[str, tuple[Order, str]]] = {
    "/controls/set": (set_control, "/controls"),
    "/controls/lift": (lift_control, "/controls"),
    "/allocations/create": (create_allocation, "/allocations"),
    "/allocations/{allocation}/release": (release_allocation, "/allocations"),
    "/allocations/{allocation}/retry": (retry_allocation, "/allocations"),
}
"""By path: what is done, and where to go when it is refused."""
