import io

import pytest

from kode.cli.screen.menu import Choice, Menu
from kode.cli.screen.screen import Screen

SCREEN = Screen(
    stream=io.StringIO(),
    rich_terminal=False,
    color=False,
    columns=lambda: 80,
    rows=lambda: 24,
)
YES, NO = Choice("y", "yes", "y"), Choice("n", "no", "n")


def sessions() -> Menu:
    choices = [Choice(str(number), f"session {number}") for number in range(30)]
    return Menu(choices, find=lambda typed: [one for one in choices if typed in one.text])


def test_a_key_chooses_and_a_word_does_not():
    menu = Menu([YES, NO])

    assert menu.by_key("y") == YES
    assert menu.by_key("N") == NO
    assert menu.by_key("yes") is menu.by_key("x") is menu.by_key("1") is None


def test_a_number_chooses_where_choices_have_no_keys():
    menu = Menu([Choice("a", "first"), Choice("b", "second")])

    assert menu.by_key("2") == Choice("b", "second")
    assert menu.by_key("3") is menu.by_key("0") is None


def asking() -> Menu:
    lasting = [Choice("a1", "the file", "a1"), Choice("a2", "the folder", "a2")]
    choices = [YES, Choice("a", "always", "a"), NO]
    return Menu(choices, selected=2, behind={"a": lasting}, takes_words=True)


def test_lasting_choices_open_behind_a_key_and_wait_for_more():
    menu = asking()

    assert menu.by_key("a") is menu.highlighted("a") is None
    assert [one.value for one in menu.offered("a")] == ["a1", "a2"]
    assert menu.by_key("a2") == menu.offered("a")[1]
    menu.move("a", -1)
    assert menu.highlighted("a").value == "a2"
    menu.move("a", 1)
    assert menu.highlighted("a").value == "a1"


@pytest.mark.parametrize("word", ["add tests", "always", "please", "a 2nd", "all", "a9"])
def test_a_word_typed_letter_by_letter_never_chooses(word):
    menu = asking()

    for end in range(1, len(word) + 1):
        assert menu.by_key(word[:end]) is None
    assert menu.highlighted(word) is None


def test_words_written_on_their_own_line_choose_nothing():
    menu = asking()
    menu.write(True)

    assert menu.by_key("y") is menu.by_key("a1") is menu.highlighted("") is None
    assert not any("yes" in line for line in menu.lines(SCREEN.paint, "y", 80, 10))


def test_a_letter_shows_its_choice_and_two_show_words():
    menu = asking()

    assert menu.highlighted("n") == NO
    assert not menu.worded("n")
    assert menu.worded("no")
    assert any("yes" in line for line in menu.lines(SCREEN.paint, "n", 80, 10))
    assert not any("yes" in line for line in menu.lines(SCREEN.paint, "no", 80, 10))


def test_a_key_pressed_again_stays_that_key():
    menu = asking()

    assert menu.by_key("yyy") == YES
    assert menu.by_key("aa") is menu.by_key("yn") is None


def test_a_search_is_never_words():
    assert not sessions().worded("session 1")


def test_only_no_has_a_key_where_words_are_wanted():
    menu = Menu([Choice("y", "yes", "yes"), NO], by_word=True, selected=1)

    menu.move("", 1)

    assert menu.by_key("y") is menu.by_key("1") is None
    assert menu.by_key("n") == menu.highlighted("") == NO


def test_arrows_go_around_and_words_are_no_choice():
    menu = Menu([YES, NO], selected=1)
    menu.move("", 1)
    assert menu.highlighted("") == YES
    menu.move("", -1)
    assert menu.highlighted("") == NO
    assert menu.highlighted("use trash") is None


def test_typing_narrows_a_menu_that_can_be_searched():
    menu = sessions()

    assert [one.value for one in menu.offered("session 2")] == ["2", *map(str, range(20, 30))]
    assert menu.highlighted("session 29") == Choice("29", "session 29")
    assert menu.highlighted("nothing like it") is None
    assert "no match" in "".join(menu.lines(SCREEN.paint, "nothing like it", 80, 10))


def test_a_long_answer_is_shown_whole_in_forty_columns():
    rules = "shell(python3 -m pytest:*), shell(npm install:*)"
    menu = Menu([Choice("s", f"yes, always in this session: {rules}", "s"), NO])

    lines = menu.lines(SCREEN.paint, "", 40, 10)

    assert " ".join(line.strip() for line in lines[:-1]).endswith(rules)
    assert all(len(line) <= 40 for line in lines)


def test_the_highlighted_choice_is_always_on_the_screen():
    menu = sessions()
    for number in range(30):
        lines = menu.lines(SCREEN.paint, "", 80, 10)
        assert len(lines) <= 10
        assert f"› session {number}" in lines
        menu.move("", 1)


def test_a_typed_line_means_a_choice():
    menu = asking()

    assert [menu.meant(line) for line in ("y", " A1 ", "nope")] == ["y", "a1", "nope"]
    assert any("[a1]" in line for line in menu.plain_lines())
    assert not any("[a]" in line for line in menu.plain_lines())
