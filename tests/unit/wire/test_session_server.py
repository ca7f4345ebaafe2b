"""Who may open a session."""

import pytest

from mainstay.wire.access import SESSION, authorize
from mainstay.wire.status import NotAllowed
from mainstay.wire.tls import Identity, Role


def test_a_cluster_may_open_its_own_session() -> None:
    authorize(SESSION, Identity(Role.CLUSTER, "web"), "web")


def test_on_plaintext_nobody_can_know() -> None:
    authorize(SESSION, None, "web")


@pytest.mark.parametrize(
    "identity",
    [
        Identity(Role.CLUSTER, "batch"),
        Identity(Role.SHARD, "web"),
        Identity(Role.ADMIN),
        Identity(Role.READONLY),
    ],
    ids=str,
)
def test_nobody_else_may(identity: Identity) -> None:
    with pytest.raises(NotAllowed, match=f"{identity.uri} may not open a session as"):
        authorize(SESSION, identity, "web")
