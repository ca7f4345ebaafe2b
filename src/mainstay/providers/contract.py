"""The contract between a shard and its providers, under the name a provider's author looks for.

The definitions are in `mainstay.model.calls`, because `mainstay.wire` needs them too and lies below
this package.
"""

from mainstay.model.calls import (
    ANSWER_BYTES_MAX,
    BLOB_BYTES_MAX,
    ERROR_OF,
    METADATA_BYTES_MAX,
    NO_FENCE,
    STATUS_OF,
    Ack,
    Call,
    Capabilities,
    ConfigureRequest,
    CreateRequest,
    Cursor,
    DeleteRequest,
    DrainRequest,
    Fence,
    GetRequest,
    Listing,
    ListRequest,
    Mutation,
    Provider,
    ProviderCalls,
    Status,
    error_of,
    status_of,
)
from mainstay.model.errors import NotSupported
from mainstay.model.notice import InterruptionNotice, Notices, known_notices

__all__ = [
    "ANSWER_BYTES_MAX",
    "BLOB_BYTES_MAX",
    "ERROR_OF",
    "METADATA_BYTES_MAX",
    "NO_FENCE",
    "STATUS_OF",
    "Ack",
    "Call",
    "Capabilities",
    "ConfigureRequest",
    "CreateRequest",
    "Cursor",
    "DeleteRequest",
    "DrainRequest",
    "Fence",
    "GetRequest",
    "InterruptionNotice",
    "ListRequest",
    "Listing",
    "Mutation",
    "NotSupported",
    "Notices",
    "Provider",
    "ProviderCalls",
    "Status",
    "error_of",
    "known_notices",
    "status_of",
]
