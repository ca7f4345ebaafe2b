"""Asking the pages of our own processes."""

import asyncio

import pytest

from mainstay.model.errors import Rejected, Unavailable
from mainstay.processes.asking import ask_page, counted
from mainstay.processes.pages import Answer, Pages, serving_pages

METRICS = """\
# HELP steps_total Steps.
steps_total{call="drain",end="done"} 3.0
steps_total{call="drain",end="failed"} 2.0
steps_total{call="create",end="done"} 7.0
steps_total_created 9.0
up 1.0
"""

PAGES: Pages = {
    ("GET", "/hello"): lambda _: Answer(200, "hello\n"),
    ("POST", "/echo"): lambda body: Answer(200, body),
}


async def asked(path: str, body: dict[str, str] | None = None) -> str:
    async with serving_pages("127.0.0.1:0", PAGES) as address:
        return await ask_page(address, path, body)


def test_a_page_is_read_and_told() -> None:
    assert asyncio.run(asked("/hello")) == "hello\n"
    assert asyncio.run(asked("/echo", {"notice_s": "120"})) == '{"notice_s": "120"}'


def test_a_page_that_is_not_there_is_refused_with_its_status() -> None:
    with pytest.raises(Rejected, match="404"):
        asyncio.run(asked("/nowhere"))


def test_a_process_that_does_not_answer_is_unavailable() -> None:
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1"):
        asyncio.run(ask_page("127.0.0.1:1", "/hello"))


def test_a_metric_is_summed_over_all_that_have_the_labels() -> None:
    assert counted(METRICS, "steps_total") == 12
    assert counted(METRICS, "steps_total", call="drain") == 5
    assert counted(METRICS, "steps_total", call="drain", end="failed") == 2
    assert counted(METRICS, "steps_total", call="delete") == 0
    assert counted(METRICS, "up") == 1
