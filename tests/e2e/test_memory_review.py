"""The review of memory in a real terminal: one key decides, leaving does not."""

import sys

import pytest

from tests.e2e.terminal import Terminal

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*forkpty.*:DeprecationWarning"),
]

OLD, NEW = "the server listens on port 80", "the server listens on port 81"


@pytest.fixture
def pair(place):
    """A memory with two facts that nobody could compare, and one that expired."""
    for text in (OLD, NEW):
        assert place.run("memory", "add", "user", text).code == 0
    assert place.run("memory", "add", "user", "away", "--until", "2020-03-06").code == 0
    return place


def facts(place):
    return (place.home / "memory/facts/user.md").read_text().split("\n§\n")


def review(place):
    return Terminal(
        sys.executable, ["-m", "kode", "memory", "review"], cwd=place.project, env=place.environ
    )


def test_one_key_decides_and_another_undoes(pair):
    with review(pair) as terminal:
        terminal.until("contradict each other, or may say the same (2 waiting)", "q  quit")
        terminal.type("2")
        terminal.until('kept "the server listens on port 81" instead of', "(1 waiting)")
        assert facts(pair) == [NEW, "away"]
        terminal.type("u")
        terminal.until("undid settle ")
        terminal.until_count("contradict each other, or may say the same (2 waiting)", 2)
        terminal.until("q  quit")
        assert facts(pair) == [OLD, NEW, "away"]
        terminal.type("w")
        terminal.until_count("by you", 8)
        terminal.until("q  quit")
        terminal.type("b")
        terminal.until_count("may no longer be true (1 waiting)", 2)
        terminal.until("q  quit")
        terminal.type("r")
        terminal.until("Nothing else is pending.")
        terminal.until("q  quit")
        assert facts(pair) == [OLD, NEW]
        terminal.type("u")
        terminal.until("undid remove ")
        terminal.until("q  quit")
        assert facts(pair) == [OLD, NEW, "away"]
        terminal.type("r")
        terminal.until_count("Nothing else is pending.", 2)
        terminal.type("q")
        terminal.until("2 decisions; 0 still pending.")
        assert terminal.ended() == 0

    assert facts(pair) == [OLD, NEW]


@pytest.mark.parametrize("keys", [("q",), ("esc",), ("ctrl-c",), ("up", "q"), ("s", "s")])
def test_leaving_and_skipping_decide_nothing(pair, keys):
    with review(pair) as terminal:
        terminal.until("(2 waiting)", "q  quit")
        for number, key in enumerate(keys):
            if key == "s" and number:
                terminal.until("(1 waiting)", "r  remove")
            terminal.type(key)
        terminal.until("0 decisions; 2 still pending.")

    assert facts(pair) == [OLD, NEW, "away"]


def test_review_prints_a_list_given_no_terminal_or_a_flag(pair):
    listed = pair.run("memory", "review")

    assert listed.code == 0
    assert "contradict each other, or may say the same" in listed.out
    assert '"away"' in listed.out
    assert pair.run("memory", "review", "--list").out == listed.out


def test_it_is_the_same_at_the_prompt(repl):
    terminal = repl()
    terminal.type("/memory review", "enter")
    terminal.until("contradict each other, or may say the same", "keep both", "decide:")

    terminal.type("2")

    terminal.until("instead of", "Nothing else is pending.", "undo the last decision")
    terminal.type("q")
    terminal.until("1 decision; 0 still pending.")
