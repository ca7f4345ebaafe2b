"""What goes in and out, as types: the OpenAPI document is made of these."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from mainstay.tenancy.database.connect import Row
from mainstay.tenancy.http.caller import ID_PATTERN
from mainstay.tenancy.states import Status
from mainstay.tenancy.timeline import Moment
from mainstay.tenancy.views import Page, Shown

INT4_MAX = 2**31 - 1
INT8_MAX = 2**63 - 1

Id = Annotated[str, Field(pattern=ID_PATTERN)]
Text = Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]


class Said(BaseModel):
    """Something a caller says: a field we do not know is refused, never ignored."""

    model_config = ConfigDict(extra="forbid")


class Error(BaseModel):
    """Every error has this form."""

    code: str
    message: str
    correlation_id: str
    details: dict[str, Any]


class NewAllocation(Said):
    """What a tenant asks for."""

    sku: Id
    gpus: int = Field(ge=1, le=1024)
    region: Id
    ssh_key_ids: list[Id] = Field(default_factory=list, max_length=100)


class Failure(BaseModel):
    """Why it failed."""

    code: str
    phase: str | None
    message: str | None


class Price(BaseModel):
    """Per GPU and hour, in minor units."""

    gpu_hour_minor: int
    currency: str


class Allocation(BaseModel):
    """An allocation, as lists have it."""

    allocation_id: str
    project_id: str
    status: Status
    sku: str
    gpus: int
    region: str
    capacity_shape: Literal["gpu_slice", "baremetal"]
    node_id: str
    price: Price
    created_at: datetime
    provisioning_started_at: datetime | None
    active_at: datetime | None
    releasing_at: datetime | None
    released_at: datetime | None
    failed_at: datetime | None
    release_failed_at: datetime | None
    release_attempt: int
    cancel_requested: bool
    failure: Failure | None
    correlation_id: str

    @classmethod
    def of(cls, row: Row) -> "Allocation":
        """From its row."""
        return cls(**_allocation(row))


class Claim(BaseModel):
    """What it holds, and how that was left by who had it before."""

    kind: Literal["slot", "node_exclusive"]
    node_id: str
    slot_index: int | None
    status: str
    slot_status: str | None
    last_proof: dict[str, Any] | None


class Line(BaseModel):
    """One line of a timeline."""

    at: datetime
    what: str
    layer: str
    detail: str

    @classmethod
    def of(cls, moment: Moment) -> "Line":
        """From what the rows tell."""
        return cls(at=moment.at, what=moment.what, layer=moment.layer, detail=moment.detail)


class AllocationDetail(Allocation):
    """An allocation with all that belongs to it."""

    requested_by: str
    connection: dict[str, Any]
    ssh_key_ids: list[str]
    claims: list[Claim]
    proof: dict[str, Any] | None

    @classmethod
    def shown(cls, found: Shown) -> "AllocationDetail":
        """From all of its rows."""
        row = found.allocation
        return cls(
            **_allocation(row),
            requested_by=row["requested_by"],
            connection=row["connection"],
            ssh_key_ids=list(found.ssh_key_ids),
            claims=[Claim(**{name: claim[name] for name in Claim.model_fields})
                    for claim in found.claims],
            proof=row["proof"],
        )  # fmt: skip


class Timeline(BaseModel):
    """What happened and when."""

    allocation_id: str
    status: Status
    moments: list[Line]


class Allocations(BaseModel):
    """A page, newest first."""

    items: list[Allocation]
    next_cursor: str | None

    @classmethod
    def of(cls, page: Page) -> "Allocations":
        """From a page of rows."""
        return cls(items=[Allocation.of(row) for row in page.rows], next_cursor=page.next_cursor)


class NewSshKey(Said):
    """A public half."""

    name: Text = ""
    public_key: str = Field(min_length=16, max_length=4096)


class SshKey(BaseModel):
    """An SSH key of a project."""

    id: str
    name: str
    public_key: str
    created_at: datetime


class SshKeys(BaseModel):
    """All of a project."""

    items: list[SshKey]


class Done(BaseModel):
    """It is done, and there is nothing else to say."""

    id: str
    done: bool = True


class Project(BaseModel):
    """A project, and who pays for it."""

    id: str
    account_id: str
    name: str
    priority: int
    created_at: datetime


class Projects(BaseModel):
    """A page by id; go on after the last one."""

    items: list[Project]


class Me(BaseModel):
    """Who the caller is."""

    name: str
    role: str
    project_id: str | None


class Sku(BaseModel):
    """Something that can be asked for."""

    sku: str
    vendor: str
    display_name: str
    capacity_shape: Literal["gpu_slice", "baremetal"]
    allowed_gpu_counts: list[int]
    gpu_hourly_price_minor: int
    currency: str
    cpu_milli_per_gpu: int
    memory_mib_per_gpu: int
    image_slug: str | None


class Region(BaseModel):
    """A place."""

    code: str
    name: str


class Room(BaseModel):
    """What is free of a SKU in a region, at this moment."""

    sku: str
    region: str
    nodes: int
    free_gpus: int
    largest_free_block: int


class Catalog(BaseModel):
    """All that is sold."""

    skus: list[Sku]
    regions: list[Region]
    rooms: list[Room]


class Balance(BaseModel):
    """How the account stands that pays for the project."""

    account: str
    currency: str
    balance_minor: int
    balance: str
    state: str
    low_balance_minor: int
    hour_minor: int
    lasts_s: int | None


class UsageRecord(BaseModel):
    """What was metered and charged for a while of an allocation."""

    id: int
    allocation_id: str
    window_start: datetime
    window_end: datetime
    gpus: int
    price_minor: int
    amount_minor: int
    currency: str


class Usage(BaseModel):
    """A page in the order of charging; go on after the last id."""

    items: list[UsageRecord]


class StatementLine(BaseModel):
    """What one allocation cost."""

    allocation: str
    project: str
    sku: str
    gpus: int
    price_minor: int
    start: datetime
    end: datetime
    seconds: int
    amount_minor: int
    amount: str


class AllocationBill(BaseModel):
    """What one allocation has cost, a line for each month.

    `charged_to` is null if nothing was charged yet. `is_whole`: it has ended, and no charge is to
    come.
    """

    allocation: str
    currency: str
    lines: list[StatementLine]
    amount_minor: int
    amount: str
    charged_to: datetime | None
    is_whole: bool


class StatementEntry(BaseModel):
    """Money that came in, or a correction."""

    id: int
    at: datetime
    kind: str
    allocation: str | None
    corrects: int | None
    reason: str
    amount_minor: int
    amount: str


class Statement(BaseModel):
    """A month of the account: opening + entries - charges = closing."""

    account: str
    month: str
    currency: str
    opening_minor: int
    lines: list[StatementLine]
    entries: list[StatementEntry]
    charges_minor: int
    closing_minor: int
    opening: str
    charges: str
    closing: str


class Notice(BaseModel):
    """Something that happened; `position` is the cursor."""

    position: int
    event_id: str
    event_type: str
    allocation_id: str | None
    occurred_at: datetime
    correlation_id: str
    payload: dict[str, Any]


class Notices(BaseModel):
    """A page, oldest first."""

    items: list[Notice]
    next_cursor: int


def picked(shape: type[BaseModel], row: Row) -> dict[str, Any]:
    """The columns of a row that a shape has."""
    return {name: row[name] for name in shape.model_fields}


def _allocation(row: Row) -> dict[str, Any]:
    failed = row["failure_code"] is not None
    same = Allocation.model_fields.keys() & row.keys()
    return {
        **{name: row[name] for name in same},
        "allocation_id": row["id"],
        "price": Price(gpu_hour_minor=row["price_minor"], currency=row["currency"]),
        "cancel_requested": row["cancel_requested_by"] is not None,
        "failure": Failure(
            code=row["failure_code"], phase=row["failure_phase"], message=row["failure_reason"]
        ) if failed else None,
    }  # fmt: skip
