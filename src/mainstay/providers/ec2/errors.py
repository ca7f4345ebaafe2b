"""What EC2's errors mean for us: try again, no capacity, or a wrong request.

Only the code and EC2's own words go into a message: an error of boto3 itself may show what was
sent, and a blob was.
"""

from typing import Any, Final

from mainstay.model.errors import MainstayError, NoCapacity, Rejected, Unavailable

TRY_AGAIN: Final = frozenset({
    "RequestLimitExceeded", "Throttling", "ThrottlingException", "RequestThrottled",
    "EC2ThrottledException", "BandwidthLimitExceeded", "RequestExpired", "ExpiredToken",
    "ExpiredTokenException", "InternalError", "InternalFailure", "ServiceUnavailable",
    "Unavailable", "ConcurrentTagAccess", "RequestResourceCountExceeded",
})  # fmt: skip

NONE_LEFT: Final = frozenset({
    "InsufficientInstanceCapacity", "InsufficientHostCapacity", "InsufficientCapacity",
    "InsufficientCapacityOnHost", "InsufficientReservedInstanceCapacity",
    "InsufficientFreeAddressesInSubnet", "InsufficientAddressCapacity",
    "InsufficientVolumeCapacity",
    "InstanceLimitExceeded", "VcpuLimitExceeded", "MaxSpotInstanceCountExceeded",
    "SpotMaxPriceTooLow", "VolumeLimitExceeded", "NetworkInterfaceLimitExceeded",
})  # fmt: skip

_BROKEN_LINES: Final = frozenset({
    "HTTPClientError", "ConnectionError", "EndpointConnectionError", "ConnectTimeoutError",
    "ReadTimeoutError", "ConnectionClosedError", "ProxyConnectionError",
    "CredentialRetrievalError", "MetadataRetrievalError", "IncompleteReadError",
    "ResponseStreamingError",
})  # fmt: skip
"""Classes of botocore, by name: it is imported late, if at all."""


def told(call: str, error: Exception) -> Exception:
    """The error of a call, as one of ours; one that is not of boto3 stays what it is."""
    if isinstance(error, TimeoutError):
        return Unavailable(f"EC2 did not answer {call} in time")
    response: Any = getattr(error, "response", None)
    if isinstance(response, dict) and isinstance(response.get("Error"), dict):
        return _answered(call, response)
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if kinds & _BROKEN_LINES:
        return Unavailable(f"EC2 cannot be reached: {call} ({type(error).__name__})")
    if "BotoCoreError" in kinds:
        return Rejected(f"EC2 cannot be asked: {call} ({type(error).__name__})")
    return error


def _answered(call: str, response: dict[str, Any]) -> MainstayError:
    code = str(response["Error"].get("Code", ""))
    said = f"{code}: {response['Error'].get('Message', '')}".rstrip(": ")
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code in NONE_LEFT:
        return NoCapacity(f"EC2 has none left: {said}")
    if code in TRY_AGAIN or status >= 500:
        return Unavailable(f"EC2 says to try again: {call}: {said}")
    return Rejected(f"EC2 refuses {call}: {said}")
