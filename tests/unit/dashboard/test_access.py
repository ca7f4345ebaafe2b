"""Tokens, cookies, roles and forged forms."""

from pathlib import Path

import pytest

from dashboards import TOKENS, FakeShard, FakeTenancy, Visitor
from mainstay.dashboard.access import Doorkeeper, Role, tokens_in
from mainstay.dashboard.app import HEADERS, PAGES
from mainstay.dashboard.orders import ORDERS
from mainstay.model.errors import Rejected
from mainstay.runtime.clock import StepClock


def test_tokens_are_made_once_and_only_we_can_read_them(tmp_path: Path) -> None:
    path, made = tokens_in(tmp_path)
    assert path == tmp_path / "dashboard" / "tokens"
    assert path.stat().st_mode & 0o777 == 0o600
    assert set(made) == set(Role)
    assert min(map(len, made.values())) >= 40
    assert tokens_in(tmp_path) == (path, made)


def test_a_file_that_others_can_read_or_that_lacks_a_role_is_refused(tmp_path: Path) -> None:
    path, _ = tokens_in(tmp_path)
    path.write_text("admin abc\n")
    with pytest.raises(Rejected, match="readonly TOKEN"):
        tokens_in(tmp_path)
    path.chmod(0o644)
    with pytest.raises(Rejected, match="chmod 600"):
        tokens_in(tmp_path)


def test_a_cookie_ends_and_cannot_be_changed_or_made_up() -> None:
    clock = StepClock(1_000.0)
    door = Doorkeeper(TOKENS, clock, lasts_s=60)
    cookie = door.admit("readonly-token\n")
    assert cookie is not None
    known = door.known(cookie)
    assert known is not None
    assert (known.role, known.may_change) == (Role.READONLY, False)
    assert door.known(cookie.replace("readonly", "admin")) is None
    assert door.admit("another") is None
    assert [door.known(bad) for bad in ("", ".", "a.b.c", "admin.9999999999.x.")] == [None] * 4
    other = Doorkeeper({**TOKENS, Role.ADMIN: "new"}, clock, lasts_s=60)
    assert other.known(cookie) is None
    clock.advance(61)
    assert door.known(cookie) is None


@pytest.mark.parametrize("path", PAGES)
def test_without_a_session_every_page_leads_to_the_sign_in(path: str) -> None:
    answer = Visitor(FakeShard("shard-a")).get(path)
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/sign-in")
    assert Visitor().get(f"/live{path}").status_code == 401


def test_the_sign_in_leads_back_to_where_one_wanted_to_go_and_nowhere_else() -> None:
    visitor = Visitor()
    answer = visitor.post("/sign-in?to=/needs%3Funmet%3D1", token="admin-token")
    assert (answer.status_code, answer.headers["location"]) == (303, "/needs?unmet=1")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    away = visitor.post("/sign-in?to=//evil.example/x", token="admin-token")
    assert away.headers["location"] == "/"
    assert visitor.post("/sign-in", token="guessed").status_code == 403


@pytest.mark.parametrize("path", ORDERS)
def test_who_may_only_look_is_refused_and_so_is_a_forged_form(path: str) -> None:
    shard, tenants = FakeShard("shard-a"), FakeTenancy({})
    fields = {"shard": "shard-a", "kind": "pause", "reason": "r", "minutes": "5"}
    reader = Visitor(shard, tenants=tenants).sign_in(Role.READONLY)
    assert reader.post(path, csrf=reader.csrf, **fields).status_code == 403
    admin = Visitor(shard, tenants=tenants).sign_in()
    assert admin.post(path, csrf=reader.csrf, **fields).status_code == 403
    assert admin.post(path, **fields).status_code == 403
    assert Visitor(shard, tenants=tenants).post(path, **fields).status_code == 401
    assert (shard.told, tenants.posted) == ([], [])


@pytest.mark.parametrize("path", PAGES)
def test_who_may_only_look_sees_no_form_that_changes_anything(path: str) -> None:
    reader = Visitor(FakeShard("shard-a")).sign_in(Role.READONLY)
    text = reader.get(path.replace("{", "").replace("}", "")).text
    main = text[text.index("<main") : text.index("</main")]
    assert 'method="post"' not in main


def test_every_answer_has_a_policy_without_inline_script() -> None:
    visitor = Visitor(FakeShard("shard-a")).sign_in()
    for path in ("/", "/sign-in", "/static/live.js", "/nothing", "/healthz"):
        answer = visitor.get(path)
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert " style=" not in answer.text
        assert " onclick=" not in answer.text


def test_files_are_those_of_the_package_and_no_others() -> None:
    visitor = Visitor()
    assert visitor.get("/static/style.css").headers["content-type"].startswith("text/css")
    assert visitor.get("/static/..%2Fapp.py").status_code == 404
    assert visitor.get("/static/app.py").status_code == 404
