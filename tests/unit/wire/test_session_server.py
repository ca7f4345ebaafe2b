"""Who may open a session."""

import pytest

from mainstay.model.frames import Hello
from mainstay.wire.session_server import authorize
from mainstay.wire.status import NotAllowed
from mainstay.wire.tls import Identity, Role

WEB = Hello("web")


def test_a_cluster_may_open_its_own_session() -> None:
    authorize(Identity(Role.CLUSTER, "web"), WEB)


def test_on_plaintext_nobody_can_know() -> None:
    authorize(None, WEB)


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
        authorize(identity, WEB)
