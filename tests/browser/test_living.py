"""What a page does while it is looked at: it changes, vanishes, hangs, comes back."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lone_dashboard import Lone, lone
from looking import Looking, are, sign_in
from readable import unreadable
from running import until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.xdist_group("browser")]


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Lone]:
    with lone(tmp_path) as started:
        yield started


@pytest.fixture
def looking(browser: "Browser") -> Looking:
    return Looking(browser)


def _look(page: "Page", alone: Lone, path: str) -> None:
    """Signed in, at a page that lives."""
    sign_in(page, alone.fleet, "admin")
    page.goto(alone.fleet.url + path)
    _is(page, "live")


def _is(page: "Page", said: str) -> None:
    page.locator("#live-state").filter(has_text=said).wait_for()


def _changed_twice(page: "Page") -> None:
    """Rows have come and gone meanwhile."""
    for _ in range(2):
        _changed(page.locator("#live-machines"))


def _changed(part: "Locator") -> None:
    before = part.inner_text()
    until(lambda: part.inner_text() != before)


def test_the_focus_stays_on_the_21st_of_equal_links(alone: Lone, looking: Looking) -> None:
    with looking as page:
        _look(page, alone, "/machines")
        row = page.locator("tbody tr").filter(has_text="shard-a-00020")
        row.locator('a[href="/clusters/shard-a"]').focus()
        _changed_twice(page)
        held = "document.activeElement.closest('tr')?.cells[0].textContent"
        assert page.evaluate(held) == "shard-a-00020"
        assert page.evaluate("document.activeElement.getAttribute('href')") == "/clusters/shard-a"


def test_who_scrolls_by_keyboard_stays_on_the_table(alone: Lone, looking: Looking) -> None:
    with looking as page:
        page.set_viewport_size({"width": 390, "height": 800})
        _look(page, alone, "/machines")
        page.locator(".scroll").focus()
        page.evaluate("document.activeElement.scrollLeft = 120")
        _changed_twice(page)
        assert page.evaluate("document.activeElement.className") == "scroll"
        assert page.evaluate("document.activeElement.scrollLeft") == 120


def test_what_is_selected_can_still_be_copied(alone: Lone, looking: Looking) -> None:
    with looking as page:
        _look(page, alone, "/machines")
        name = page.locator("tbody th a", has_text="shard-a-00007")
        name.evaluate("e => getSelection().selectAllChildren(e)")
        _changed_twice(page)
        assert page.evaluate("getSelection().toString()") == "shard-a-00007"


def test_a_machine_that_is_forgotten_is_said_to_be_gone(alone: Lone, looking: Looking) -> None:
    with looking as page:
        _look(page, alone, "/machines/sha-1")
        page.get_by_role("heading", name="Why").wait_for()
        alone.say("gone")
        page.get_by_role("alert").filter(
            has_text="no such machine here: check the name."
        ).wait_for()
        _is(page, "gone")
        are(page.get_by_role("heading", name="Why"), 0)
        are(page.locator("main .facts"), 0)
        alone.unsay("gone")
        page.get_by_role("heading", name="Why").wait_for()
        _is(page, "live")
        are(page.get_by_role("alert"), 0)


def test_a_machine_that_failed_is_retired_with_a_reason(alone: Lone, looking: Looking) -> None:
    with looking as page:
        alone.say("failed")
        _look(page, alone, "/machines/sha-1")
        page.get_by_role("link", name="Retire").click()
        page.get_by_role("heading", name="Retire sha-1?").wait_for()
        assert unreadable(page) == []
        page.get_by_role("button", name="Retire").click()  # the browser asks for a reason
        assert page.url.endswith("/machines/sha-1/retire")
        page.get_by_label("Reason").fill("the board is dead")
        page.get_by_role("button", name="Retire").click()
        page.wait_for_url("**/machines?state=Failed")
        page.get_by_text("sha-1 is retired").wait_for()
        page.goto(f"{alone.fleet.url}/machines/sha-1")
        page.get_by_role("heading", name="Why").wait_for()
        are(page.get_by_role("link", name="Retire"), 0)


def test_a_dashboard_that_hangs_is_not_taken_for_one_that_lives(
    alone: Lone, looking: Looking
) -> None:
    with looking as page:
        _look(page, alone, "/machines")
        alone.halt()
        try:
            _is(page, "stale since")
            assert page.evaluate("'stale' in document.documentElement.dataset")
            assert unreadable(page) == []
        finally:
            alone.go_on()
        _is(page, "live")
        assert not page.evaluate("'stale' in document.documentElement.dataset")


def test_after_a_restart_and_after_a_refusal_the_page_lives_on(
    alone: Lone, looking: Looking
) -> None:
    with looking as page:
        _look(page, alone, "/machines")
        alone.restart()
        _is(page, "live")
        _changed_twice(page)
        alone.say("refused")
        alone.restart()
        _is(page, "stale since")
        alone.unsay("refused")
        _is(page, "live")
        _changed_twice(page)
        looking.wrong.clear()  # the browser tells of what was refused


def test_whose_session_has_ended_is_led_to_the_sign_in(alone: Lone, looking: Looking) -> None:
    with looking as page:
        _look(page, alone, "/machines?state=Idle")
        alone.restart(token="token-of-another")
        page.get_by_role("link", name="sign in again").click()
        page.get_by_label("Token").fill("token-of-another")
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url("**/machines?state=Idle")
        _is(page, "live")
        looking.wrong.clear()


def test_the_same_is_asked_for_again_when_there_is_room_again(
    alone: Lone, looking: Looking
) -> None:
    with looking as page:
        alone.say("full")
        _look(page, alone, "/allocations/alc_1")
        page.get_by_role("button", name="Ask for the same again").click()
        page.get_by_text("no node has room for it").wait_for()
        alone.unsay("full")
        for other in ("alc_3", "alc_4"):
            page.goto(f"{alone.fleet.url}/allocations/alc_1")
            _is(page, "live")
            page.get_by_role("button", name="Ask for the same again").click()
            page.get_by_text(f"The same is asked for again: {other}.").wait_for()


def test_the_form_for_an_allocation_comes_when_the_api_answers_and_then_stays_as_it_is(
    alone: Lone, looking: Looking
) -> None:
    with looking as page:
        alone.say("mute")
        _look(page, alone, "/allocations")
        page.get_by_text("Nothing can be asked for now").wait_for()
        alone.unsay("mute")
        page.get_by_text("New allocation").click()
        what = page.get_by_label("What", exact=True)
        what.select_option("slice@r1@4")
        page.locator(".ages").wait_for(state="detached")
        alone.say("other")
        page.reload()
        page.get_by_text("New allocation").click()
        what.select_option("slice@r1@4")
        alone.unsay("other")
        alone.say("mute")
        page.locator(".ages").wait_for()
        assert what.input_value() == "slice@r1@4"
        alone.unsay("mute")
        page.locator(".ages").wait_for(state="detached")
        assert what.input_value() == "slice@r1@4"
        page.get_by_role("button", name="Create allocation").click()
        page.get_by_text("alc_2 is asked for.").wait_for()
