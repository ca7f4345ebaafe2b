"""Routes of administrators: nodes and their slots."""

from datetime import datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from mainstay.tenancy import discovery, nodes
from mainstay.tenancy.database.connect import Row
from mainstay.tenancy.enrolment import TOKEN_S
from mainstay.tenancy.http.caller import ID_PATTERN, INSPECTS, Caller, GivenParts, Operator, Parts
from mainstay.tenancy.http.once import Mutation, Once
from mainstay.tenancy.http.shapes import INT4_MAX, Id, Said, Text, picked
from mainstay.tenancy.ids import Ids
from mainstay.tenancy.nodes import FoundSlot, NewNode, NodeStep
from mainstay.tenancy.states import NodeStatus, SlotStatus

router: Final = APIRouter(prefix="/admin/nodes", tags=["admin"])

NodeId = Annotated[str, Path(pattern=ID_PATTERN)]
SlotIndex = Annotated[int, Path(ge=0, le=INT4_MAX)]
Small = Annotated[int, Field(ge=0, le=INT4_MAX)]
TOKEN: Final = frozenset({"enrolment_token"})


class SlotBody(Said):
    """A slot that is known before the agent looks."""

    slot_index: int = Field(ge=0, le=1023)
    numa_node: int = Field(default=0, ge=0, le=1023)
    pci_address: Text = ""
    nvme_device: Text = ""
    mac_address: Text = ""
    private_ip: Text = ""
    fabric_vf_pci_address: Text = ""


class NodeBody(Said):
    """A node that is to be enrolled."""

    id: Id
    region: Id
    sku: Id
    gpus_total: int = Field(ge=1, le=1024)
    offers: list[Id] = Field(default_factory=list, max_length=50)
    cpu_milli: Small = 0
    memory_mib: Small = 0
    slots: list[SlotBody] = Field(default_factory=list, max_length=1024)


class Node(BaseModel):
    """A node."""

    id: str
    region: str
    sku: str
    status: NodeStatus
    mode: str
    gpus_total: int
    agent_version: str
    last_seen_at: datetime | None
    created_at: datetime


class Outage(BaseModel):
    """A time in which a node was silent, and nobody paid for it; it may last."""

    began_at: datetime
    ended_at: datetime | None


class CountedNode(Node):
    """A node, with how its slots are."""

    machine: str | None
    """Of a fleet, that the bridge made a node of; null: it was registered by hand."""

    retired_at: datetime | None
    """When it ceased to be that; null: it has not, or was registered by hand."""

    outages: list[Outage] | None
    """The oldest first; null: they were not asked for."""

    slots: int
    slots_available: int
    slots_blocked: int


class Nodes(BaseModel):
    """A page by id; go on after the last one."""

    items: list[CountedNode]


class Invitation(BaseModel):
    """For one enrolment. The token is shown once; null when this answer is repeated."""

    node_id: str
    enrolment_token: str | None
    valid_s: int = TOKEN_S


class Slot(BaseModel):
    """A slot, and how it is."""

    id: str
    node_id: str
    slot_index: int
    status: SlotStatus
    numa_node: int
    pci_address: str
    nvme_device: str
    mac_address: str
    private_ip: str
    fabric_vf_pci_address: str
    unready: str
    """Why it is not given out though it is available; empty: it is ready."""

    health_detail: dict[str, Any]


class Slots(BaseModel):
    """All of a node."""

    items: list[Slot]


@router.post("", status_code=201, response_model=Invitation)
async def register(
    body: NodeBody, parts: GivenParts, caller: Operator, once: Mutation
) -> JSONResponse:
    """Register a node; its agent enrols with the token."""
    new = NewNode(
        **body.model_dump(exclude={"slots", "offers"}),
        offers=tuple(body.offers),
        slots=tuple(FoundSlot(**slot.model_dump()) for slot in body.slots),
    )

    async def work(_: Ids) -> Invitation:
        row, token = await nodes.register(parts.pool, new, caller.who)
        return Invitation(node_id=row["id"], enrolment_token=token)

    return await once.answer(work, status=201, secret=TOKEN)


@router.get("", dependencies=[INSPECTS])
async def listed(
    parts: GivenParts,
    *,
    after: Annotated[str, Query(max_length=128, pattern=r"^[\x20-\x7e]*$")] = "",
    limit: Annotated[int, Query(ge=1, le=200)] = 100,
    retired: bool = False,
    retired_only: bool = False,
    outages: bool = False,
) -> Nodes:
    """Nodes by id, each with how many of its slots are free and blocked; retired ones if asked.

    With `retired_only=true` these alone; with `outages=true` each with its outages.
    """
    query = nodes.Query(
        after=after, limit=limit, retired=retired, retired_only=retired_only, outages=outages
    )
    rows = await nodes.listed(parts.pool, query)
    return Nodes(items=[CountedNode(**picked(CountedNode, row)) for row in rows])


@router.get("/{node_id}", dependencies=[INSPECTS])
async def show(node_id: NodeId, parts: GivenParts) -> CountedNode:
    """One node."""
    return CountedNode(**picked(CountedNode, await nodes.show(parts.pool, node_id)))


@router.post("/{node_id}/enrolment-token", status_code=201, response_model=Invitation)
async def invite(
    node_id: NodeId, parts: GivenParts, caller: Operator, once: Mutation
) -> JSONResponse:
    """Another token for one enrolment; the one before is void."""

    async def work(_: Ids) -> Invitation:
        token = await nodes.invite(parts.pool, node_id, caller.who)
        return Invitation(node_id=node_id, enrolment_token=token)

    return await once.answer(work, status=201, secret=TOKEN)


class NodeStepBody(Said):
    """What becomes of the node."""

    step: NodeStep


@router.post("/{node_id}/step", response_model=Node)
async def step(
    node_id: NodeId, body: NodeStepBody, parts: GivenParts, caller: Operator, once: Mutation
) -> JSONResponse:
    """Drain, resume, quarantine or retire a node; what runs there goes on."""

    async def work(_: Ids) -> Node:
        row = await nodes.step(parts.pool, node_id, body.step, caller.who)
        return Node(**picked(Node, row))

    return await once.answer(work)


@router.get("/{node_id}/resource-slots", dependencies=[INSPECTS])
async def slots(node_id: NodeId, parts: GivenParts) -> Slots:
    """The slots of a node, with their health."""
    return _slots(await nodes.slots(parts.pool, node_id))


@router.post("/{node_id}/slice-topology/discovery", response_model=Slots)
async def discover(
    node_id: NodeId, parts: GivenParts, caller: Operator, once: Mutation
) -> JSONResponse:
    """Have the node's agent look at its hardware; what is new waits for approval."""

    async def work(ids: Ids) -> Slots:
        asked = discovery.Discovery(parts.pool, ids, parts.signer, parts.bell)
        return _slots(await asked.of(node_id, caller.who))

    return await once.answer(work)


@router.post("/{node_id}/resource-slots/{slot_index}/approve", response_model=Slot)
async def approve(
    node_id: NodeId, slot_index: SlotIndex, parts: GivenParts, caller: Operator, once: Mutation
) -> JSONResponse:
    """Let a slot be given out."""
    return await _set(parts, caller, (node_id, slot_index), SlotStatus.AVAILABLE, once)


@router.post("/{node_id}/resource-slots/{slot_index}/disable", response_model=Slot)
async def disable(
    node_id: NodeId, slot_index: SlotIndex, parts: GivenParts, caller: Operator, once: Mutation
) -> JSONResponse:
    """Take a slot out of service."""
    return await _set(parts, caller, (node_id, slot_index), SlotStatus.DISABLED, once)


async def _set(
    parts: Parts, caller: Caller, slot: tuple[str, int], to: SlotStatus, once: Once
) -> JSONResponse:
    async def work(_: Ids) -> Slot:
        row = await nodes.set_slot(parts.pool, *slot, to=to, who=caller.who)
        return Slot(**picked(Slot, row))

    return await once.answer(work)


def _slots(rows: list[Row]) -> Slots:
    return Slots(items=[Slot(**picked(Slot, row)) for row in rows])
