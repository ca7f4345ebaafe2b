"""What `mainstay alloc` prints of what the API says."""

import json
from typing import Any, Final

import pytest

from mainstay.cli.alloc import CATALOG, offers
from mainstay.cli.listing import Printer
from mainstay.cli.output import Format, tell

Captured = pytest.CaptureFixture[str]

FOUND: Final[dict[str, Any]] = {
    "skus": [
        {"sku": "h200", "allowed_gpu_counts": [1, 8], "gpu_hourly_price_minor": 250,
         "currency": "USD"},
        {"sku": "a10", "allowed_gpu_counts": [1], "gpu_hourly_price_minor": 90, "currency": "JPY"},
    ],
    "rooms": [
        {"sku": "h200", "region": "r-1", "free_gpus": 3, "largest_free_block": 2},
        {"sku": "a10", "region": "r-1", "free_gpus": 0, "largest_free_block": 0},
        {"sku": "gone", "region": "r-1", "free_gpus": 9, "largest_free_block": 8},
    ],
}  # fmt: skip


def printed(form: Format, capsys: Captured) -> str:
    printer = Printer(CATALOG, form)
    printer.write(offers(FOUND))
    printer.close()
    return capsys.readouterr().out


def test_a_price_is_told_as_people_pay_it(capsys: Captured) -> None:
    header, *rows = printed(Format.TABLE, capsys).splitlines()

    assert header.split() == ["SKU", "REGION", "GPUS", "PRICE", "FREE", "LARGEST", "BLOCK"]
    assert [row.split()[0] for row in rows] == ["h200", "a10"]
    assert " $2.50/GPU-h " in rows[0]
    assert " 90 JPY/GPU-h " in rows[1]


def test_as_data_a_price_is_in_minor_units(capsys: Captured) -> None:
    rows = json.loads(printed(Format.JSON, capsys))

    assert [(row["gpu_hour_minor"], row["currency"]) for row in rows] == [(250, "USD"), (90, "JPY")]


@pytest.mark.parametrize("form", [Format.TABLE, Format.NAME])
def test_what_was_made_is_one_word_unless_data_is_asked_for(form: Format, capsys: Captured) -> None:
    tell({"allocation_id": "alc-1", "status": "requested"}, "alc-1", form)
    line = capsys.readouterr().out
    tell({"allocation_id": "alc-1", "status": "requested"}, "alc-1", Format.JSON)

    assert line == "alc-1\n"
    assert json.loads(capsys.readouterr().out) == [
        {"allocation_id": "alc-1", "status": "requested"}
    ]
