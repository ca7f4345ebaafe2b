"""The proxy of the tests leaves nothing open, whatever comes while it is stopped."""

import gc
import socket

import pytest

from fault_proxy import fault_proxy


@pytest.mark.parametrize("is_cut", [False, True])
def test_who_dials_while_it_stops_leaves_no_socket_open(is_cut: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as target:
        for _ in range(5):
            with fault_proxy(f"127.0.0.1:{target.getsockname()[1]}") as proxy:
                host, _, port = proxy.address.rpartition(":")
                if is_cut:
                    proxy.cut()
                dialled = [socket.create_connection((host, int(port))) for _ in range(20)]
            for each in dialled:
                each.close()
        gc.collect()
