import io

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


def test_a_key_or_number_chooses_and_a_word_does_not():
    menu = Menu([YES, NO])

    assert menu.by_key("y") == menu.by_key("1") == YES
    assert menu.by_key("N") == menu.by_key("2") == NO
    assert menu.by_key("yes") is menu.by_key("x") is menu.by_key("3") is None


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
