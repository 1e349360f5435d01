"""Memory on its page: entries, and what waits for a decision."""

import re

from kode.memory.base import Addition
from kode.memory.change import Author
from kode.memory.history import History
from kode.memory.waiting import propose

from kode import paths
from kode.conversation.memory import outside_context
from kode.events import silent
from kode.memory import make_system
from tests.memory.life import in_messages
from tests.plugins.view.conftest import HOSTILE, enter, make_place, remember
from tests.plugins.view.reading import assert_harmless, words_of


def send(browser, path):
    origin = {"origin": browser.keys.origin}
    return browser.client.post(path, data={"token": browser.keys.form_token(path)}, headers=origin)


async def test_memory_shows_each_entry_with_where_it_came_from(browser):
    await remember(browser.place)

    words = words_of(browser.get("/memory"))

    assert "prefers tabs facts/user.md · everywhere · add by you" in words
    assert "the port is 9090 facts/env.md · everywhere · replace by you" in words
    assert "waits for approval" in words
    assert "2 by you · 1 without a recorded change" in words


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


async def test_a_proposal_of_another_agent_can_be_approved(browser, tmp_path):
    history = History(paths.memory_folder(browser.place.home, None) / "history.jsonl")
    text = f"prefers tabs {HOSTILE[:60]}"
    await propose(history, text, "user", client="zed", project=tmp_path)
    page = browser.get("/memory")
    (path,) = re.findall(r'action="(/memory/review/\w+/approve)"', page)

    done = send(browser, path)

    assert "by zed in" in words_of(page)
    assert_harmless(page)
    assert done.status_code == 200
    after = words_of(browser.get("/memory"))
    assert "Nothing is pending" in after
    assert "prefers tabs" in after
    again = send(browser, path)
    assert again.status_code == 404
    assert "no longer pending" in again.text


async def test_a_button_decides_a_contradiction_and_can_be_undone(browser):
    async def says_update(system, prompt, max_output_tokens):
        return "update"

    place, system = browser.place, make_system(browser.place.config.memory)
    ask_reply = in_messages(says_update)
    context = outside_context(place.config, place.cwd, emit=silent, ask_reply=ask_reply)
    await system.open(context, {})
    await system.add(Addition(target="user", text="the port is 80"))
    await system.writer.add("user", "global", "the port is 81", Author(who="model"))
    await system.close(60.0)
    page = browser.get("/memory")
    assert "Contradict each other" in words_of(page)
    _, second, _ = re.findall(r'action="(/memory/review/\w+/(?:first|second|both))"', page)
    assert send(browser, second.replace("second", "approve")).status_code == 404

    done = send(browser, second)

    page = words_of(browser.get("/memory"))
    assert "Nothing is pending" in page
    assert "the port is 80 superseded by “the port is 81”" in page
    (undo,) = re.findall(r'action="(/memory/undo/\w+)"', done.text)
    assert send(browser, undo).status_code == 200
    assert "Contradict each other" in words_of(browser.get("/memory"))
    assert send(browser, "/memory/undo/none").status_code == 404
