"""Who may look, and what a page may do."""

import re

import pytest

from kode.plugins.view.access import Keys
from tests.plugins.view.conftest import ADDRESS, client_of, make_place, remember

PAGES = ("/", "/memory", "/fleets", "/costs", "/style.css")


@pytest.fixture
def keys():
    return Keys(address=ADDRESS)


@pytest.fixture
def client(tmp_path, keys):
    """A browser that has not come in yet."""
    return client_of(make_place(tmp_path), keys)


def test_the_link_lets_one_browser_in_and_no_second(client, keys, tmp_path):
    other = client_of(make_place(tmp_path), keys)
    link = keys.link

    entered = client.get(link)
    late = other.get(link)

    cookie = entered.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert client.get("/").status_code == 200
    assert late.status_code == 403
    assert "set-cookie" not in late.headers
    assert "works once" in late.text
    assert other.get("/").status_code == 403


def test_the_same_browser_may_use_its_link_again(client, keys):
    link = keys.link
    client.get(link)

    again = client.get(link)

    assert (again.status_code, again.headers["location"]) == (303, "/")


@pytest.mark.parametrize(
    "path", [*PAGES, "/nowhere", "/?token=", "/?token=guessed", "/memory?token=x"]
)
def test_a_request_that_lacks_the_cookie_is_refused(client, path):
    answer = client.get(path)

    assert answer.status_code == 403
    assert "kode view" in answer.text
    assert answer.headers["content-type"].startswith("text/plain")


@pytest.mark.parametrize("value", ["", "x", "ä", "kode"])
def test_a_wrong_cookie_is_none(client, keys, value):
    answer = client.get("/", headers={"cookie": f"{keys.cookie_name}={value}".encode()})

    assert answer.status_code == 403


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost:8000", "127.0.0.1", "127.0.0.1:8001", "127.0.0.1:8000."]
)
def test_a_name_that_was_rebound_to_this_machine_is_refused(browser, host):
    assert browser.client.get("/", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:9000", ""])
def test_another_origin_is_refused_although_the_cookie_is_there(browser, origin):
    for method in ("GET", "POST"):
        answer = browser.client.request(method, "/memory", headers={"origin": origin})
        assert answer.status_code == 403


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(browser, method):
    assert browser.client.request(method, "/").status_code == 405


@pytest.mark.parametrize("path", [*PAGES, "/nowhere"])
def test_every_answer_forbids_scripts_frames_and_other_hosts(browser, path):
    headers = browser.client.get(path).headers
    policy = headers["content-security-policy"]

    assert "default-src 'none'" in policy
    assert "script-src" not in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", [path for path in PAGES if path != "/style.css"])
def test_pages_hold_no_script_inline_style_or_foreign_address(browser, path):
    text = browser.get(path)

    assert not re.search(r"<script|<style|\sstyle=|\son\w+=", text)
    assert not re.search(r"(?:src|href|action)=\"(?:https?:)?//", text)


def test_only_the_review_takes_a_post(browser):
    origin = {"origin": browser.keys.origin}

    for path in PAGES:
        answer = browser.client.post(path, headers=origin, data={"token": "x"})
        assert answer.status_code == 405, path


async def approvals(browser):
    await remember(browser.place)
    (path,) = re.findall(r'action="(/memory/review/\w+/approve)"', browser.get("/memory"))
    return path


@pytest.mark.parametrize("token", ["", "x", "of another path", "a long one"])
async def test_a_form_without_the_token_of_its_page_changes_nothing(browser, token):
    path = await approvals(browser)
    token = {
        "of another path": browser.keys.form_token("/memory/review/other/approve"),
        "a long one": browser.keys.form_token(path) + "x" * 10_000,
    }.get(token, token)
    origin = {"origin": browser.keys.origin}

    answer = browser.client.post(path, headers=origin, data={"token": token})

    assert answer.status_code == 403
    assert path in browser.get("/memory")


async def test_a_form_without_an_origin_changes_nothing(browser):
    path = await approvals(browser)

    answer = browser.client.post(path, data={"token": browser.keys.form_token(path)})

    assert answer.status_code == 403
    assert path in browser.get("/memory")


async def test_a_form_without_the_cookie_changes_nothing(browser):
    path = await approvals(browser)
    other = client_of(browser.place, browser.keys)
    origin = {"origin": browser.keys.origin}

    answer = other.post(path, headers=origin, data={"token": browser.keys.form_token(path)})

    assert answer.status_code == 403
    assert path in browser.get("/memory")


async def test_a_get_of_the_address_of_an_approval_changes_nothing(browser):
    path = await approvals(browser)

    assert browser.client.get(path).status_code == 405
    assert path in browser.get("/memory")
