"""The page of costs, and records of other plug-ins."""

from dataclasses import replace

from kode.messages import user_message
from kode.session.entries import PluginEntry
from tests.plugins.view.conftest import (
    HOSTILE,
    a_session,
    assert_harmless,
    page_of,
    says,
    words_of,
)
from tests.session.stories import new_session, turn_entry


def test_a_record_of_a_plugin_is_shown_on_its_session(browser):
    session = new_session(browser.place.home)
    session.append(PluginEntry(type="x-goal", value={"text": f"tests pass {HOSTILE}"}))

    page = page_of(browser, session)

    assert 'Record goal { "text": "tests pass' in words_of(page)
    assert_harmless(page)


def test_no_unknown_price_is_shown_as_zero(browser):
    session = new_session(browser.place.home)
    session.give_name("login-page")
    session.append_message(user_message("task"))
    session.append_message(says("done"))
    session.append(replace(turn_entry(1, session), cost_usd=None))
    on_its_page = words_of(page_of(browser, session))
    in_list, in_costs = (words_of(browser.get(path)) for path in ("/", "/costs"))

    assert "login-page · task" in in_list
    assert on_its_page.startswith("login-page · kode")
    assert [page.count("unknown") for page in (in_list, on_its_page, in_costs)] == [1, 3, 4]
    assert "$0" not in in_list + on_its_page + in_costs


def test_costs_are_summed_by_project(browser, tmp_path):
    a_session(browser.place.home, ["a", "b"], tmp_path / "one")
    session = new_session(browser.place.home, tmp_path / "two")
    session.append_message(says("a"))
    session.close()

    words = words_of(browser.get("/costs?days=7"))

    assert "$0.50 + unknown for 3 requests in the last 7 days" in words
    assert "/one $0.50 2" in words
    assert "/two unknown 1" in words
