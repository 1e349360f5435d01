"""Memory on its page: entries, and what waits for a decision."""

import re

from kode import paths
from tests.plugins.view.conftest import assert_harmless, enter, make_place, remember, words_of


async def test_memory_shows_each_entry_with_where_it_came_from(browser):
    await remember(browser.place)

    page = browser.get("/memory")

    words = words_of(page)
    assert re.search(r"user 2 prefers tabs everywhere · by you, \d", words)
    assert re.search(r"env 1 the port is 9090 everywhere · by you, \d", words)
    assert re.search(r"Superseded 1 the port is 8080 replace by you, \d", words)
    assert "Waiting for approval" in words
    assert "from zed" in words
    assert "3 by you" in words
    assert "kode memory review decides about these" in words
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
