"""The form for a new allocation: only what is sold, with its price."""

import html
import re
from typing import Any

import pytest

from dashboards import FakeTenancy, Visitor
from mainstay.dashboard.pages.ordering import offers

CATALOGUE: dict[str, Any] = {
    "skus": [
        {"sku": "slice", "display_name": "Slice", "allowed_gpu_counts": [4, 1],
         "gpu_hourly_price_minor": 450, "currency": "USD"},
        {"sku": "metal", "display_name": "Metal", "allowed_gpu_counts": [8],
         "gpu_hourly_price_minor": 420, "currency": "USD"},
    ],
    "rooms": [
        {"sku": "slice", "region": "r1", "free_gpus": 6},
        {"sku": "metal", "region": "r1", "free_gpus": 0},
        {"sku": "no longer sold", "region": "r1", "free_gpus": 9},
    ],
}  # fmt: skip
PROJECTS = {"items": [{"id": "p1", "name": "One"}, {"id": "p2", "name": "Two"}]}


def tenants() -> FakeTenancy:
    return FakeTenancy({
        "/catalog": CATALOGUE, "/projects": PROJECTS,
        "/ssh-keys": {"items": [{"id": "k", "name": "laptop"}]},
        "/admin/allocations": {"items": [], "next_cursor": None},
    })  # fmt: skip


def test_only_what_the_catalogue_allows_is_offered_each_with_its_price() -> None:
    assert [(each.value, each.label) for each in offers(CATALOGUE)] == [
        ("slice@r1@1", "1 GPU: Slice, r1, $4.50 per hour; 6 free"),
        ("slice@r1@4", "4 GPUs: Slice, r1, $18.00 per hour ($4.50 per GPU); 6 free"),
        ("metal@r1@8", "8 GPUs: Metal, r1, $33.60 per hour ($4.20 per GPU); 0 free"),
    ]


@pytest.mark.parametrize(
    ("currency", "each", "all_of_it"),
    [("JPY", "450 JPY", "1,800 JPY"), ("KWD", "0.450 KWD", "1.800 KWD")],
)
def test_an_offer_is_priced_with_the_decimals_of_its_currency(
    currency: str, each: str, all_of_it: str
) -> None:
    catalogue = {**CATALOGUE, "skus": [{**CATALOGUE["skus"][0], "currency": currency}]}
    assert [f"{each} per hour" in one.label for one in offers(catalogue)] == [True, False]
    assert f"{all_of_it} per hour ({each} per GPU)" in list(offers(catalogue))[1].label


def test_the_keys_of_each_project_can_be_chosen() -> None:
    text = html.unescape(Visitor(tenants=tenants()).sign_in().get("/allocations").text)
    assert re.findall(r'<option value="(p\d@k)">([^<]+)<', text) == [
        ("p1@k", "laptop of One"), ("p2@k", "laptop of Two"),
    ]  # fmt: skip


def test_an_order_names_the_key() -> None:
    api = tenants()
    visitor = Visitor(tenants=api).sign_in()
    visitor.post("/allocations/create", csrf=visitor.csrf, project="p1", offer="slice@r1@4",
                 key="p1@k", nonce="n")  # fmt: skip
    assert [body for _, body, _ in api.posted] == [
        {"sku": "slice", "gpus": 4, "region": "r1", "ssh_key_ids": ["k"]}
    ]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"offer": "slice@r1@4", "key": "p2@k"}, "k is a key of p2"),
        ({"offer": "slice@r1"}, "not in the catalogue: slice@r1"),
        ({"offer": "slice@r1@many"}, "not in the catalogue"),
        ({"offer": ""}, "not in the catalogue"),
    ],
)
def test_an_order_that_cannot_be_meant_is_refused(fields: dict[str, str], said: str) -> None:
    api = tenants()
    visitor = Visitor(tenants=api).sign_in()
    done = visitor.post("/allocations/create", csrf=visitor.csrf, project="p1", nonce="n", **fields)
    visitor.cookies.update(done.cookies)
    assert said in visitor.get("/allocations").text
    assert api.posted == []


def test_when_the_catalogue_is_not_told_the_page_says_so_and_hides_nothing() -> None:
    api = FakeTenancy({"/admin/allocations": {"items": [], "next_cursor": None}})
    text = Visitor(tenants=api).sign_in().get("/allocations").text
    assert "Nothing can be asked for now: nothing at /catalog" in text
