"""What the tags of an instance say: whose it is, which slot it fills, whom it serves.

EC2 takes fifty tags of 256 characters. The metadata of a binding is any map of any texts, so it is
packed: JSON, compressed, in base64, cut into as many tags as it takes. The blob that joins a
machine to its cluster is a secret and never in a tag.
"""

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from mainstay.model.calls import METADATA_BYTES_MAX
from mainstay.model.errors import Rejected
from mainstay.providers.ec2.config import OURS

TAGS_MAX: Final = 50
VALUE_LENGTH_MAX: Final = 256

PROVIDER: Final = f"{OURS}provider"
SLOT: Final = f"{OURS}slot"
MACHINE: Final = f"{OURS}machine"
OPERATION: Final = f"{OURS}operation"
ROLE: Final = f"{OURS}role"
CLUSTER: Final = f"{OURS}cluster"
METADATA: Final = f"{OURS}metadata:"
NAME: Final = "Name"
"""What the console shows."""

_FIXED: Final = (PROVIDER, SLOT, MACHINE, OPERATION, ROLE, CLUSTER, NAME)
_UNPACKED_BYTES_MAX: Final = 8 * METADATA_BYTES_MAX
"""JSON writes one byte as six at worst; then there are quotes and commas."""


class Role(StrEnum):
    """What an instance is there for; fixed when it is launched."""

    IDLE = "idle"
    """It holds the place of an Idle machine and runs nothing."""

    SERVING = "serving"
    """It was launched with a bootstrap blob, for a cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """All that our tags say of one instance."""

    slot: str
    machine: str
    operation: str
    role: Role
    cluster: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)


def written(label: Label, provider: str, own: Mapping[str, str]) -> dict[str, str]:
    """The tags for a label; Rejected when they are too many."""
    tags = {
        **own,
        PROVIDER: provider,
        SLOT: label.slot,
        MACHINE: label.machine,
        OPERATION: label.operation,
        ROLE: label.role.value,
        NAME: label.machine,
    }
    if label.cluster:
        tags[CLUSTER] = label.cluster
    return tags | packed(label.metadata, tags_max=room(own))


def room(own: Mapping[str, str]) -> int:
    """How many tags there are for metadata."""
    return TAGS_MAX - len(_FIXED) - len(own)


def packed(metadata: Mapping[str, str], *, tags_max: int) -> dict[str, str]:
    """Metadata as tags; Rejected when it takes more than there are."""
    if not metadata:
        return {}
    raw = json.dumps(dict(metadata), sort_keys=True, separators=(",", ":")).encode()
    text = base64.b64encode(zlib.compress(raw, 9)).decode()
    cut = [text[at : at + VALUE_LENGTH_MAX] for at in range(0, len(text), VALUE_LENGTH_MAX)]
    if len(cut) > tags_max:
        limit = f"at most {tags_max} tags of {VALUE_LENGTH_MAX} characters"
        raise Rejected(f"shard metadata does not fit the tags of an instance: {len(cut)} ({limit})")
    return {f"{METADATA}{number:02}": part for number, part in enumerate(cut)}


def read(tags: Mapping[str, str]) -> Label:
    """The label that tags say; Rejected for tags that we have not written."""
    try:
        return Label(
            slot=tags[SLOT],
            machine=tags[MACHINE],
            operation=tags[OPERATION],
            role=Role(tags[ROLE]),
            cluster=tags.get(CLUSTER, ""),
            metadata=_unpacked(tags),
        )
    except KeyError as error:
        raise Rejected(f"a tag is missing: {error.args[0]}") from error
    except ValueError as error:
        raise Rejected(f"a tag cannot be read: {error}") from error


def _unpacked(tags: Mapping[str, str]) -> dict[str, str]:
    parts = sorted(item for item in tags.items() if item[0].startswith(METADATA))
    if not parts:
        return {}
    try:
        pressed = base64.b64decode("".join(part for _, part in parts), validate=True)
        stream = zlib.decompressobj()
        raw = stream.decompress(pressed, _UNPACKED_BYTES_MAX)
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"{METADATA}* ({error})") from error
    if not stream.eof:
        raise ValueError(f"{METADATA}* (cut off)")
    metadata = json.loads(raw)
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise ValueError(f"{METADATA}* (not a map of texts)")
    return metadata
