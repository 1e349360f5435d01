"""Memory on its pages: entries, the history, what waits for approval."""

import re

import pytest

from kode import paths
from kode.conversation.memory import outside_context
from kode.events import silent
from kode.memory import make_system
from kode.memory.base import Addition
from kode.memory.change import Author
from kode.memory.history import History
from kode.memory.overview import changes
from kode.memory.source import citing
from kode.memory.waiting import propose
from kode.plugins.view import remembered
from kode.plugins.view.access import Keys
from tests.memory.life import in_messages
from tests.plugins.view.conftest import (
    ADDRESS,
    HOSTILE,
    TAINTED,
    client_of,
    make_place,
    remember,
)
from tests.plugins.view.reading import assert_harmless, words_of


async def test_memory_shows_each_entry_with_where_it_came_from(browser):
    await remember(browser.place)

    page = browser.get("/memory")
    words = words_of(page)

    assert "prefers tabs facts/user.md · everywhere · add by you" in words
    assert "the port is 9090 facts/env.md · everywhere · replace by you" in words
    assert "waits for approval" in words
    assert "2 by you · 1 without a recorded change" in words
    assert "3 changes" in words


async def test_an_approval_counts_and_can_be_undone(browser):
    await remember(browser.place)
    page = browser.get("/memory")
    (path,) = re.findall(r'action="(/memory/review/\w+/approve)"', page)
    token = browser.keys.form_token(path)
    assert f'value="{token}"' in page

    done = browser.client.post(path, data={"token": token}, headers={"origin": browser.keys.origin})

    assert done.status_code == 200
    assert "kode memory undo" in done.text
    assert "Nothing is pending" in browser.get("/memory")
    async with remembered._opened(browser.place) as (system, _):
        newest = changes(system)[0]
    assert (newest.kind, newest.who, TAINTED in newest.target) == ("approve", "user", True)
    again = browser.client.post(
        path, data={"token": token}, headers={"origin": browser.keys.origin}
    )
    assert again.status_code == 404
    assert "no longer pending" in again.text


def test_memory_that_is_off_says_so(tmp_path):
    keys = Keys(address=ADDRESS)
    client = client_of(make_place(tmp_path, memory={"enabled": False}), keys)
    client.get(keys.link)

    answer = client.get("/memory")

    assert answer.status_code == 404
    assert "Memory is off" in answer.text


async def test_a_proposal_of_another_agent_can_be_approved(browser, tmp_path):
    place = browser.place
    history = History(paths.memory_folder(place.home, None) / "history.jsonl")
    text = f"prefers tabs {HOSTILE[:60]}"
    await propose(history, text, "user", client="zed", project=tmp_path)
    page = browser.get("/memory")
    (path,) = re.findall(r'action="(/memory/review/\w+/approve)"', page)

    done = browser.client.post(
        path,
        data={"token": browser.keys.form_token(path)},
        headers={"origin": browser.keys.origin},
    )

    assert "by zed in" in words_of(page)
    assert_harmless(page)
    assert done.status_code == 200
    after = words_of(browser.get("/memory"))
    assert "Nothing is pending" in after
    assert "prefers tabs" in after


async def test_an_entry_is_stale_once_its_code_has_changed(tmp_path):
    (tmp_path / ".git").mkdir()
    code = tmp_path / "server.py"
    code.write_text("PORT = 8080\n")
    place, keys = make_place(tmp_path), Keys(address=ADDRESS)
    system = make_system(place.config.memory)
    await system.open(outside_context(place.config, tmp_path, emit=silent), {})
    author = citing(Author(who="model", words="which port?"), tmp_path, "server.py:1")
    await system.writer.add("env", "project", "the port is 8080", author)
    await system.close(60.0)
    client = client_of(place, keys)
    client.get(keys.link)

    fresh = words_of(client.get("/memory").text)
    code.write_text("PORT = 9090\n")

    assert "may be stale" not in fresh
    assert "may be stale: server.py:1 changed" in words_of(client.get("/memory").text)


async def contradicting(browser):
    """A fact that the person gave, and one of a lower rank that contradicts it."""
    place = browser.place
    system = make_system(place.config.memory)

    async def says_update(system, prompt, max_output_tokens):
        return "update"

    context = outside_context(
        place.config, place.cwd, emit=silent, ask_reply=in_messages(says_update)
    )
    await system.open(context, {})
    await system.add(Addition(target="user", text="the port is 80"))
    await system.writer.add("user", "global", "the port is 81", Author(who="model"))
    await system.close(60.0)


def send(browser, path):
    return browser.client.post(
        path,
        data={"token": browser.keys.form_token(path)},
        headers={"origin": browser.keys.origin},
    )


async def test_a_button_decides_a_contradiction_and_can_be_undone(browser):
    await contradicting(browser)
    page = browser.get("/memory")
    assert "Contradict each other" in words_of(page)
    paths = re.findall(r'action="(/memory/review/\w+/(?:first|second|both))"', page)

    done = send(browser, paths[1])

    assert "instead of" in words_of(done.text)
    page = words_of(browser.get("/memory"))
    assert "Nothing is pending" in page
    assert "the port is 80 superseded by “the port is 81”" in page
    (undo,) = re.findall(r'action="(/memory/undo/\w+)"', done.text)
    assert send(browser, undo).status_code == 200
    assert "Contradict each other" in words_of(browser.get("/memory"))
    assert send(browser, "/memory/undo/none").status_code == 404


async def test_a_choice_that_is_none_changes_nothing(browser):
    await contradicting(browser)
    (path, *_) = re.findall(r'action="(/memory/review/\w+)/first"', browser.get("/memory"))

    assert send(browser, f"{path}/approve").status_code == 404
    assert "Contradict each other" in words_of(browser.get("/memory"))


async def test_counts_by_source_lead_to_their_entries(browser):
    await contradicting(browser)
    page = browser.get("/memory")
    assert "You said so 1" in words_of(page)

    said = words_of(browser.get("/memory?source=said"))

    assert "1 entry shown" in said
    assert "the port is 80 facts/user.md" in said
    assert "the port is 81 facts/user.md" not in said


@pytest.mark.parametrize(
    ("system", "target"),
    [("tiered", "user"), ("vault", "user"), ("journal", "memory"), ("notes", "note")],
)
async def test_every_system_shows_its_entries_and_who_made_them(tmp_path, system, target):
    place, keys = make_place(tmp_path, memory={"system": system}), Keys(address=ADDRESS)
    memory = make_system(place.config.memory)
    await memory.open(outside_context(place.config, place.cwd, emit=silent), {})
    await memory.add(Addition(target=target, text="prefers tabs"))
    await memory.close(60.0)
    client = client_of(place, keys)
    client.get(keys.link)

    words = words_of(client.get("/memory").text)

    assert f"The {system} system" in words
    assert re.search(r"prefers tabs .{0,80}(?:by you|written by hand)", words)
