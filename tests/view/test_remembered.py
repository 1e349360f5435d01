"""Memory on its pages: entries, the history, what waits for approval."""

import re

import pytest

from kode import paths
from kode.conversation.memory import outside_context
from kode.events import silent
from kode.memory import make_system
from kode.memory.base import Addition
from kode.memory.history import Author, Change
from kode.memory.proposals import Proposals
from kode.memory.source import citing
from kode.view import remembered
from kode.view.access import Keys
from tests.memory.life import NOON
from tests.view.conftest import (
    ADDRESS,
    HOSTILE,
    TAINTED,
    client_of,
    make_place,
    remember,
)
from tests.view.reading import assert_harmless, words_of


async def test_memory_shows_each_entry_with_where_it_came_from(browser):
    await remember(browser.place)

    page = browser.get("/memory")
    words = words_of(page)

    assert "prefers tabs facts/user.md · everywhere · add by you" in words
    assert "the port is 9090 facts/env.md · everywhere · replace by you" in words
    assert "waits for approval" in words
    assert "2 by you · 1 without a recorded change" in words
    assert "3 changes in the history" in words


async def test_the_history_can_be_walked_from_an_entry_to_what_it_was_made_of(browser):
    await remember(browser.place)
    (replaced,) = re.findall(r'href="(/memory/changes/\w+)">replace', browser.get("/memory"))

    page = browser.get(replaced)
    (added,) = re.findall(r'href="(/memory/changes/\w+)">add', page)
    back = re.findall(r'href="(/memory/changes/\w+)">replace', browser.get(added))

    assert "the port is 8080" in words_of(page)
    assert back == [replaced]
    listed = words_of(browser.get("/memory/changes"))
    assert f"led to replace {replaced.rpartition('/')[2]}" in listed
    assert f"follows add {added.rpartition('/')[2]}" in listed


async def test_an_approval_counts_and_can_be_undone(browser):
    await remember(browser.place)
    page = browser.get("/memory")
    (path,) = re.findall(r'action="(/memory/approve/[^"]+)"', page)
    (token,) = re.findall(r'name="token" value="([^"]+)"', page)

    done = browser.client.post(path, data={"token": token}, headers={"origin": browser.keys.origin})

    assert done.status_code == 200
    assert "kode memory undo" in done.text
    assert "Nothing waits for approval" in browser.get("/memory")
    newest = (await remembered.history(browser.place.config, browser.place.cwd))[0].change
    assert (newest.kind, newest.who, TAINTED in newest.target) == ("approve", "user", True)
    again = browser.client.post(
        path, data={"token": token}, headers={"origin": browser.keys.origin}
    )
    assert again.status_code == 404
    assert "Nothing waits under this id" in again.text


def test_memory_that_is_off_says_so(tmp_path):
    keys = Keys(address=ADDRESS)
    client = client_of(make_place(tmp_path, memory={"enabled": False}), keys)
    client.get(keys.link)

    answer = client.get("/memory")

    assert answer.status_code == 404
    assert "Memory is off" in answer.text


async def test_what_another_agent_proposes_is_approved_like_the_rest(browser, tmp_path):
    place = browser.place
    proposals = Proposals(paths.memory_folder(place.home, None))
    await proposals.propose(
        f"prefers tabs {HOSTILE[:60]}", "user", client="zed", project=tmp_path, now=NOON
    )
    page = browser.get("/memory")
    (path,) = re.findall(r'action="(/memory/approve/[^"]+)"', page)

    done = browser.client.post(
        path,
        data={"token": browser.keys.form_token(path)},
        headers={"origin": browser.keys.origin},
    )

    assert "by zed in" in words_of(page)
    assert_harmless(page)
    assert done.status_code == 200
    after = words_of(browser.get("/memory"))
    assert "Nothing waits for approval" in after
    assert "prefers tabs" in after


async def test_an_entry_that_rests_on_code_is_marked_when_the_lines_have_changed(tmp_path):
    (tmp_path / ".git").mkdir()
    code = tmp_path / "server.py"
    code.write_text("PORT = 8080\n")
    place, keys = make_place(tmp_path), Keys(address=ADDRESS)
    system = make_system(place.config.memory)
    await system.open(outside_context(place.config, tmp_path, emit=silent), {})
    author = citing(Author(who="model", words="which port?"), tmp_path, "server.py:1")
    await system.writer.add("env", "project", "the port is 8080", author)
    await system.close(1.0)
    client = client_of(place, keys)
    client.get(keys.link)

    fresh = words_of(client.get("/memory").text)
    (change,) = re.findall(r'"(/memory/changes/\w+)"', client.get("/memory").text)
    code.write_text("PORT = 9090\n")

    assert "may be stale" not in fresh
    assert "may be stale: server.py:1 changed" in words_of(client.get("/memory").text)
    chain = words_of(client.get(change).text)
    assert "You had asked which port?" in chain
    assert "from server.py:1 (changed since)" in chain


def test_changes_are_linked_by_the_texts_they_share_and_by_undos():
    def change(id, before=(), after=(), **values):
        return Change(
            id=id,
            kind="k",
            target="t",
            system="s",
            who="user",
            before=before,
            after=after,
            **values,
        )

    oldest_first = [
        change("1", after=("a",)),
        change("2", before=("a",), after=("b",)),
        change("3", before=("b",), after=("a",), undoes="2"),
        change("4", before=("a",), after=("b",), undoes="3"),
        change("5", after=("unrelated",)),
    ]

    found = {one.change.id: one for one in remembered.linked(oldest_first[::-1])}

    assert [c.id for c in found["2"].made_from] == ["1"]
    assert [c.id for c in found["3"].made_from] == ["2"]
    assert found["3"].undone_by is not None
    assert found["3"].undone_by.id == "4"
    assert found["2"].undone_by is None
    assert found["5"].made_from == found["5"].led_to == ()


@pytest.mark.parametrize(
    ("system", "target"),
    [("tiered", "user"), ("vault", "user"), ("journal", "memory"), ("notes", "note")],
)
async def test_every_system_shows_its_entries_and_who_made_them(tmp_path, system, target):
    place, keys = make_place(tmp_path, memory={"system": system}), Keys(address=ADDRESS)
    memory = make_system(place.config.memory)
    await memory.open(outside_context(place.config, place.cwd, emit=silent), {})
    await memory.add(Addition(target=target, text="prefers tabs"))
    await memory.close(1.0)
    client = client_of(place, keys)
    client.get(keys.link)

    words = words_of(client.get("/memory").text)

    assert f"The {system} system" in words
    assert re.search(r"prefers tabs .{0,80}(?:by you|written by hand)", words)
    assert "by you" in words_of(client.get("/memory/changes").text)
