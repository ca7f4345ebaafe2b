"""Asks the small pages of our own processes, as probes do: one request, one answer, on loopback."""

import asyncio
import json
from collections.abc import Mapping
from typing import Final

from mainstay.model.errors import Rejected, Unavailable

PATIENCE_S: Final = 10.0


async def ask_page(address: str, path: str, body: Mapping[str, str] | None = None) -> str:
    """What a page says; with a body it is told something."""
    host, _, port = address.rpartition(":")
    data = b"" if body is None else json.dumps(dict(body)).encode()
    head = (
        f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\n"
        f"Host: {address}\r\nContent-Length: {len(data)}\r\nConnection: close\r\n\r\n"
    )
    try:
        async with asyncio.timeout(PATIENCE_S):
            reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
            try:
                writer.write(head.encode() + data)
                answer = await reader.read(-1)
            finally:
                writer.close()
    except (OSError, TimeoutError) as error:
        raise Unavailable(f"no answer from http://{address}{path}: {error}") from error
    top, _, text = answer.decode(errors="replace").partition("\r\n\r\n")
    status = top.split(" ", 2)[1] if " " in top else ""
    if status != "200":
        raise Rejected(f"http://{address}{path} answers {status or 'nothing'}: {text[:200]}")
    return text


def counted(metrics: str, name: str, **labels: str) -> float:
    """The sum of a metric over all label sets that have these labels, from the text of /metrics."""
    total = 0.0
    for line in metrics.splitlines():
        series, _, value = line.rpartition(" ")
        if series.partition("{")[0] == name and all(
            f'{label}="{wanted}"' in series for label, wanted in labels.items()
        ):
            total += float(value)
    return total
