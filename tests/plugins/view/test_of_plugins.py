"""Pages that another plug-in shows, and parts of a session's page."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kode import installed
from kode.installed import Plugin
from kode.plugins.view.access import Keys
from tests.plugins.view.conftest import (
    ADDRESS,
    HOSTILE,
    Browser,
    a_session,
    client_of,
    make_place,
)
from tests.plugins.view.reading import assert_harmless, words_of

PAGES = """\
from kode.plugin import Page

def counts(place, query):
    if query.get("id") == "none":
        return None
    return "tally.html", {"text": query.get("text", ""), "number": query["page"], "more": True}

def of_session(place, query):
    if not query.get("fail"):
        return "part.html", {"id": query["id"]}
    raise ValueError

PAGES = [
    Page(path="/tally", title="Tally", show=counts),
    Page(path="/tally/{id}", show=counts),
    Page(path="/sessions/{id}/tally", show=of_session),
]
"""
PAGE = """\
{% extends "base.html" %}{% from "parts.html" import pager %}{% set view = "Tally" %}
{% block title %}Tally{% endblock %}
{% block main %}<h1>Number {{ number }}</h1>{{ text }}{{ pager(part, "Counts") }}{% endblock %}
"""

Opened = Callable[[str], Browser]


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opened:
    """Opens the pages beside a plug-in that names these."""
    package = tmp_path / "tally_of_a_stranger"
    (package / "templates").mkdir(parents=True)
    (package / "pages.py").write_text(PAGES)
    (package / "templates" / "tally.html").write_text(PAGE)
    (package / "templates" / "part.html").write_text("<p>Counted in {{ id }}.</p>")
    monkeypatch.syspath_prepend(tmp_path)
    own = installed.plugins()

    def browser(pages: str) -> Browser:
        tally = Plugin(name="tally", summary="counts", pages=pages)
        monkeypatch.setattr(installed, "plugins", lambda: (*own, tally))
        place, keys = make_place(tmp_path), Keys(address=ADDRESS)
        client = client_of(place, keys)
        client.get(keys.link)
        return Browser(client=client, keys=keys, place=place)

    return browser


@pytest.fixture
def browser(opened: Opened) -> Browser:
    return opened("tally_of_a_stranger.pages:PAGES")


def test_a_page_of_a_plugin_is_in_the_navigation(browser: Browser) -> None:
    assert '<a href="/tally">Tally</a>' in browser.get("/")
    assert 'aria-current="page">Tally</a>' in browser.get("/tally/7")


def test_a_page_of_a_plugin_shows_texts_as_text(browser: Browser) -> None:
    answer = browser.client.get("/tally/7", params={"text": HOSTILE})
    assert_harmless(answer.text)


def test_a_list_of_a_plugin_has_a_next_page(browser: Browser) -> None:
    page = browser.get("/tally/7?page=2")
    assert "Number 2" in page
    assert 'rel="next" href="/tally/7?page=3"' in page


def test_a_page_that_a_plugin_does_not_have_is_missing(browser: Browser) -> None:
    assert browser.client.get("/tally/none").status_code == 404


def test_a_part_of_a_plugin_is_on_each_session(browser: Browser) -> None:
    session = a_session(browser.place.home, ["fix it"])
    assert f"Counted in {session}." in words_of(browser.get(f"/sessions/{session}"))


def test_a_part_that_fails_leaves_the_session_readable(browser: Browser) -> None:
    session = a_session(browser.place.home, ["fix it"])
    page = browser.get(f"/sessions/{session}?fail=yes")
    assert "re: fix it" in page
    assert 'class="bad"' in page


def test_pages_that_cannot_be_imported_are_left_out(
    opened: Opened, capsys: pytest.CaptureFixture[str]
) -> None:
    browser = opened("tally_of_a_stranger.nowhere:PAGES")
    assert "Tally" not in browser.get("/")
    assert "kode plugin disable tally" in capsys.readouterr().err
