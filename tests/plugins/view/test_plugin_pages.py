"""Pages that another plug-in shows, and its records."""

from kode import installed
from kode.installed import Plugin
from kode.plugins.fleet.queue import create
from kode.plugins.fleet.records import Fleet, Task
from kode.session.entries import PluginEntry
from tests.plugins.view.conftest import (
    HOSTILE,
    a_session,
    assert_harmless,
    enter,
    make_place,
    page_of,
    says,
    words_of,
)
from tests.session.stories import new_session

PAGES = """\
from kode.plugin import Page

def counts(place, query):
    if query.get("id") == "none":
        return None
    return "tally.html", {"text": query.get("text", ""), "number": query["page"], "more": True}

PAGES = [Page(path="/tally", title="Tally", show=counts), Page(path="/tally/{id}", show=counts)]
"""
PAGE = """\
{% extends "base.html" %}{% from "parts.html" import pager %}{% set view = "Tally" %}
{% block title %}Tally{% endblock %}
{% block main %}<h1>Number {{ number }}</h1>{{ text }}{{ pager(part, "Counts") }}{% endblock %}
"""


def beside(pages, tmp_path, monkeypatch):
    """The pages beside those of a plug-in, which this names."""
    package = tmp_path / "tally_of_a_stranger"
    (package / "templates").mkdir(parents=True)
    (package / "pages.py").write_text(PAGES)
    (package / "templates" / "tally.html").write_text(PAGE)
    monkeypatch.syspath_prepend(tmp_path)
    plugins = (*installed.plugins(), Plugin(name="tally", summary="counts", pages=pages))
    monkeypatch.setattr(installed, "plugins", lambda: plugins)
    return enter(make_place(tmp_path))


def test_a_plugin_adds_pages(tmp_path, monkeypatch):
    browser = beside("tally_of_a_stranger.pages:PAGES", tmp_path, monkeypatch)

    page = browser.get("/tally/7?page=2")

    assert '<a href="/tally">Tally</a>' in browser.get("/")
    assert 'aria-current="page">Tally</a>' in page
    assert "Number 2" in page
    assert 'rel="next" href="/tally/7?page=3"' in page
    assert_harmless(browser.client.get("/tally/7", params={"text": HOSTILE}).text)
    assert browser.client.get("/tally/none").status_code == 404


def test_pages_that_cannot_be_imported_are_left_out(tmp_path, monkeypatch, capsys):
    browser = beside("tally_of_a_stranger.nowhere:PAGES", tmp_path, monkeypatch)

    assert "Tally" not in browser.get("/")
    assert "kode plugin disable tally" in capsys.readouterr().err


def test_a_record_of_a_plugin_is_shown_on_its_session(browser):
    session = new_session(browser.place.home)
    session.append(PluginEntry(type="x-goal", value={"text": f"tests pass {HOSTILE}"}))

    page = page_of(browser, session)

    assert 'Record goal { "text": "tests pass' in words_of(page)
    assert_harmless(page)


def test_a_fleet_is_shown_with_its_tasks(browser, tmp_path):
    def fleet(home, id):
        tasks = (Task(id="t0", task=HOSTILE, source="/project", isolate="none"),)
        create(home, Fleet(id=id, created_at="2026-01-01T00:00:00Z", tasks=tasks, trees="/trees"))

    fleet(browser.place.home, "20260101-000000-aaaaaa")
    fleet(tmp_path / "elsewhere", "20260101-000000-bbbbbb")

    assert '<a href="/fleets/20260101-000000-aaaaaa">' in browser.get("/fleets")
    assert_harmless(browser.get("/fleets/20260101-000000-aaaaaa"))
    for name in ("20260101-000000-bbbbbb", "%2E%2E", "20260101"):
        assert browser.client.get(f"/fleets/{name}").status_code == 404


def test_costs_are_summed_by_project(browser, tmp_path):
    a_session(browser.place.home, ["a", "b"], tmp_path / "one")
    session = new_session(browser.place.home, tmp_path / "two")
    session.append_message(says("a"))
    session.close()

    words = words_of(browser.get("/costs?days=7"))

    assert "$0.50 + unknown for 3 requests in the last 7 days" in words
    assert "/one $0.50 2" in words
    assert "/two unknown 1" in words
