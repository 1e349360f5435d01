"""Memory on its page: entries, and what waits for a decision."""

import re

from kode import paths
from kode.plugin import open_memory
from tests.plugins.view.conftest import assert_harmless, enter, make_place, remember, words_of


def send(browser, path):
    origin = {"origin": browser.keys.origin}
    return browser.client.post(path, data={"token": browser.keys.form_token(path)}, headers=origin)


async def test_memory_shows_each_entry_with_where_it_came_from(browser):
    await remember(browser.place)

    page = browser.get("/memory")

    words = words_of(page)
    assert re.search(r"user 2 prefers tabs everywhere · by you, \d", words)
    assert re.search(r"env 1 the port is 9090 everywhere · by you, \d", words)
    assert re.search(r"Superseded 1 the port is 8080 replace by you, \d", words)
    assert "Waiting for approval It came from outside" in words
    assert "from zed" in words
    assert "3 by you" in words
    assert_harmless(page)


async def test_a_key_that_a_person_left_in_memory_is_masked(browser):
    await remember(browser.place)
    key = "sk-proj-" + "a1B2c3D4" * 6
    facts = paths.memory_folder(browser.place.home, None) / "facts" / "user.md"
    facts.write_text(f"the key is {key}\n§\nprefers tabs")

    page = browser.get("/memory")

    assert key not in page
    assert "the key is" in page


def test_memory_that_is_off_says_so(tmp_path):
    answer = enter(make_place(tmp_path, memory={"enabled": False})).client.get("/memory")

    assert answer.status_code == 404
    assert "Memory is off" in answer.text


async def test_an_approval_counts_once_and_can_be_undone(browser):
    await remember(browser.place)
    (path,) = re.findall(r'action="(/memory/review/\w+/approve)"', browser.get("/memory"))

    done = send(browser, path)

    assert done.status_code == 200
    after = words_of(browser.get("/memory"))
    assert "Nothing is pending" in after
    assert "user 3" in after
    again = send(browser, path)
    assert again.status_code == 404
    assert "No entry that waits" in again.text
    (undo,) = re.findall(r'action="(/memory/undo/\w+)"', done.text)
    assert send(browser, undo).status_code == 200
    assert "Waiting for approval" in words_of(browser.get("/memory"))
    assert send(browser, "/memory/undo/none").status_code == 404


async def test_a_button_decides_a_contradiction(browser):
    async with open_memory(browser.place.config, browser.place.cwd) as opened:
        await opened.command(["add", "user", "the port is 80"])
        memory = opened.system
        old = memory.store.find("port")
        new = memory.store.new_version(old, "the port is 81", memory.author())
        await memory.save(new, old=old)
    page = browser.get("/memory")
    assert "Contradict each other" in words_of(page)
    _, second, _ = re.findall(r'action="(/memory/review/[\w+]+/(?:first|second|both))"', page)
    assert send(browser, second.replace("second", "approve")).status_code == 404

    assert send(browser, second).status_code == 200

    words = words_of(browser.get("/memory"))
    assert "Nothing is pending" in words
    assert "user 1 the port is 81" in words
    assert "Superseded 1 the port is 80" in words
