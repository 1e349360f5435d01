"""Who may look, and what a page may do."""

import re

import pytest

from kode.plugins.view.access import Keys
from tests.plugins.view.conftest import ADDRESS, client_of, make_place
from tests.tables import for_each

PAGES = ("/", "/memory", "/costs")
ALL = (*PAGES, "/style.css", "/nowhere")


@pytest.fixture
def keys():
    return Keys(address=ADDRESS)


@pytest.fixture
def client(tmp_path, keys):
    """A browser that has not come in yet."""
    return client_of(make_place(tmp_path), keys)


def test_the_link_lets_one_browser_in_and_no_second(client, keys, tmp_path):
    other, link = client_of(make_place(tmp_path), keys), keys.link

    entered = client.get(link)
    late = other.get(link)

    assert "httponly" in entered.headers["set-cookie"].lower()
    assert "samesite=strict" in entered.headers["set-cookie"].lower()
    assert client.get("/").status_code == 200
    assert (late.status_code, "set-cookie" in late.headers) == (403, False)
    assert "works once" in late.text
    assert other.get("/").status_code == 403
    beside = Keys(address="127.0.0.1:1")
    assert not {beside.cookie_name, beside.cookie} & {keys.cookie_name, keys.cookie}
    again = client.get(link)
    assert (again.status_code, again.headers["location"]) == (303, "/")


@for_each("path", [*ALL, "/?token=", "/?token=guessed", "/memory?token=x"])
@for_each("cookie", [None, "", "x", "ä", "kode"])
def test_a_request_that_lacks_the_cookie_is_refused(client, keys, path, cookie):
    value = f"{keys.cookie_name}={cookie}".encode()
    answer = client.get(path, headers={} if cookie is None else {"cookie": value})

    assert answer.status_code == 403
    assert "kode view" in answer.text
    assert answer.headers["content-type"].startswith("text/plain")


HOSTS = ("evil.example", "localhost:8000", "127.0.0.1", "127.0.0.1:8001", "127.0.0.1:8000.")
ORIGINS = ("http://evil.example", "null", "http://127.0.0.1:9000", "")


@for_each(
    ("method", "headers", "status"),
    [
        *(("GET", {"host": host}, 421) for host in HOSTS),
        *(("GET", {"origin": origin}, 403) for origin in ORIGINS),
        *((method, {}, 405) for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE")),
    ],
)
@for_each("path", (*PAGES, "/style.css"))
def test_names_origins_and_methods_of_others_are_refused(browser, method, headers, status, path):
    assert browser.client.request(method, path, headers=headers).status_code == status


@for_each("path", ALL)
def test_every_answer_forbids_scripts_frames_and_other_hosts(browser, path):
    answer = browser.client.get(path)
    policy = answer.headers["content-security-policy"]

    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert not re.search("script-src|unsafe|http", policy)
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert not re.search(r"<script|<style|\sstyle=|\son\w+=", answer.text)
    assert not re.search(r"(?:src|href|action)=\"(?:https?:)?//", answer.text)
