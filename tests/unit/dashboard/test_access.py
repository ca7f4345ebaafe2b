"""Tokens, cookies, roles and forged forms."""

from pathlib import Path

import pytest

from dashboards import PEOPLE, TOKENS, FakeShard, FakeTenancy, Visitor
from mainstay.dashboard.access import Doorkeeper, Person, Role, people_in, tokens_in
from mainstay.dashboard.app import HEADERS
from mainstay.dashboard.ended import Ended
from mainstay.dashboard.orders import ORDERS
from mainstay.dashboard.paths import PAGES
from mainstay.model.errors import Rejected, Unavailable
from mainstay.runtime.clock import StepClock

OTHER = "0123456789abcdef"

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Nothing from anywhere else, and nothing inline."""


def test_tokens_are_made_once_and_only_we_can_read_them(tmp_path: Path) -> None:
    path, made = tokens_in(tmp_path)
    assert path == tmp_path / "dashboard" / "tokens"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [(person.role, person.name) for person in made] == [(role, role) for role in Role]
    assert min(len(person.token) for person in made) >= 40
    assert tokens_in(tmp_path) == (path, made)


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path, _ = tokens_in(tmp_path)
    path.chmod(0o644)
    with pytest.raises(Rejected, match="chmod 600"):
        tokens_in(tmp_path)


def test_each_line_is_a_person_and_one_without_a_name_is_called_as_its_role() -> None:
    admin, reader = TOKENS[Role.ADMIN], TOKENS[Role.READONLY]
    lines = f"# people\n\nadmin alice {admin}\nadmin bob {OTHER}\nreadonly {reader}\n"
    assert people_in(lines) == (
        Person(Role.ADMIN, "alice", admin), Person(Role.ADMIN, "bob", OTHER),
        Person(Role.READONLY, "readonly", reader),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("", "lets nobody in"),
        ("admin short\n", "line 1: a token has 16 to 200 characters"),
        (f"admin {'x' * 201}\n", "line 1: a token has 16 to 200 characters"),
        (f"\nowner {OTHER}\n", "line 2 is not ROLE TOKEN or ROLE NAME TOKEN"),
        ("admin\n", "line 1 is not ROLE TOKEN"),
        (f"admin a b {OTHER}\n", "line 1 is not ROLE TOKEN"),
        (f"admin a.b {OTHER}\n", "line 1: a name is"),
        (f"admin {OTHER}\nreadonly {OTHER}\n", "lines 1 and 2 have one token"),
        (f"admin {OTHER}\nadmin {OTHER}x\n", "lines 1 and 2 have one name"),
    ],
)
def test_a_file_that_would_let_in_the_wrong_people_is_refused_in_one_line(
    lines: str, said: str, tmp_path: Path
) -> None:
    path, _ = tokens_in(tmp_path)
    path.write_text(lines)
    with pytest.raises(Rejected) as refused:
        tokens_in(tmp_path)
    told = refused.value.message
    assert (str(path) in told, said in told, "\n" in told) == (True, True, False)
    assert OTHER not in told


def test_a_cookie_ends_and_cannot_be_changed_or_made_up() -> None:
    clock = StepClock(1_000.0)
    door = Doorkeeper(PEOPLE, clock, lasts_s=60, ended=Ended(None))
    cookie = door.admit(f"{TOKENS[Role.READONLY]}\n")
    assert cookie is not None
    known = door.known(cookie)
    assert known is not None
    assert (known.role, known.name, known.may_change) == (Role.READONLY, "readonly", False)
    assert door.known(cookie.replace("readonly", "admin")) is None
    assert door.known(cookie.replace(".readonly.", ".alice.")) is None
    assert door.admit("another") is None
    made_up = ("", ".", "a.b.c", "admin.alice.9999999999.x.", "admin.alice.x.y.é")
    assert [door.known(bad) for bad in made_up] == [None] * 5
    clock.advance(61)
    assert door.known(cookie) is None


def test_a_new_token_ends_the_sessions_of_that_person_and_of_nobody_else() -> None:
    clock = StepClock(1_000.0)
    door = Doorkeeper(PEOPLE, clock, lasts_s=60, ended=Ended(None))
    alice, reader = door.admit(TOKENS[Role.ADMIN]), door.admit(TOKENS[Role.READONLY])
    assert alice is not None
    assert reader is not None
    changed = (Person(Role.ADMIN, "alice", OTHER), PEOPLE[1])
    after = Doorkeeper(changed, clock, lasts_s=60, ended=Ended(None))
    assert (after.known(alice), after.known(reader) is not None) == (None, True)


def test_a_copied_cookie_is_dead_when_its_owner_has_signed_out_and_stays_so(
    tmp_path: Path,
) -> None:
    visitor = Visitor(FakeShard("shard-a")).sign_in()
    copy, other = dict(visitor.cookies), Visitor(FakeShard("shard-a")).sign_in()
    assert visitor.get("/").status_code == 200
    assert visitor.post("/sign-out", csrf=visitor.csrf).headers["location"] == "/sign-in"
    visitor.cookies = copy
    assert visitor.get("/").status_code == 303
    assert visitor.get("/live/").status_code == 401
    assert other.get("/").status_code == 200

    clock, path = StepClock(1_000.0), tmp_path / "ended"
    door = Doorkeeper(PEOPLE, clock, lasts_s=60, ended=Ended(path))
    cookie = door.admit(TOKENS[Role.ADMIN])
    session = door.known(cookie or "")
    assert session is not None
    door.dismiss(session)
    assert path.stat().st_mode & 0o777 == 0o600
    again = Doorkeeper(PEOPLE, clock, lasts_s=60, ended=Ended(path))
    assert again.known(cookie or "") is None
    clock.advance(61)
    later = again.known(again.admit(TOKENS[Role.ADMIN]) or "")
    assert later is not None
    again.dismiss(later)
    assert path.read_text().count("\n") == 1, "one whose time is over is not kept"


def test_a_sign_out_that_cannot_be_written_down_holds_and_says_so(tmp_path: Path) -> None:
    ended = Ended(tmp_path / "none" / "ended")
    with pytest.raises(Unavailable, match="ended until the next start"):
        ended.add("s", 60.0, 0.0)
    assert "s" in ended


@pytest.mark.parametrize("secure", [True, False])
def test_over_https_every_cookie_is_for_https_only(secure: bool) -> None:
    visitor = Visitor(FakeShard("shard-a"), secure=secure).sign_in()
    done = visitor.post("/controls/lift", csrf=visitor.csrf, shard="shard-a", kind="pause")
    entered = visitor.post("/sign-in", token=TOKENS[Role.ADMIN])
    told = [answer.headers["set-cookie"] for answer in (done, entered)]
    assert ["Secure" in cookie for cookie in told] == [secure] * 2
    assert "mainstay_notice" in told[0]


@pytest.mark.parametrize("path", PAGES)
def test_without_a_session_every_page_leads_to_the_sign_in(path: str) -> None:
    answer = Visitor(FakeShard("shard-a")).get(path)
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/sign-in")
    assert Visitor().get(f"/live{path}").status_code == 401


def test_the_sign_in_leads_back_to_where_one_wanted_to_go_and_nowhere_else() -> None:
    visitor = Visitor()
    answer = visitor.post("/sign-in?to=/needs%3Funmet%3D1", token=TOKENS[Role.ADMIN])
    assert (answer.status_code, answer.headers["location"]) == (303, "/needs?unmet=1")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    away = visitor.post("/sign-in?to=//evil.example/x", token=TOKENS[Role.ADMIN])
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


def test_every_answer_has_a_policy_of_only_what_is_its_own_and_not_inline() -> None:
    visitor = Visitor(FakeShard("shard-a")).sign_in()
    for path in ("/", "/sign-in", "/static/live.js", "/nothing", "/healthz"):
        answer = visitor.get(path)
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
        assert answer.headers["content-security-policy"] == POLICY
        assert " style=" not in answer.text
        assert " onclick=" not in answer.text


def test_files_are_those_of_the_package_and_no_others() -> None:
    visitor = Visitor()
    assert visitor.get("/static/style.css").headers["content-type"].startswith("text/css")
    assert visitor.get("/static/..%2Fapp.py").status_code == 404
    assert visitor.get("/static/app.py").status_code == 404
