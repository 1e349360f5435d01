import pytest

from kode.cli.screen.menu import Choice, Menu
from tests.cli.terminals import make_screen

SCREEN = make_screen()
YES, NO = Choice("y", "yes", "y"), Choice("n", "no", "n")


def sessions() -> Menu:
    choices = [Choice(str(number), f"session {number}") for number in range(30)]
    return Menu(choices, is_searchable=True)


def pressed(menu: Menu, keys: str) -> Choice | None:
    """What the last of some keys chooses, when those before choose nothing."""
    *before, last = keys
    assert [menu.press(key) for key in before] == [None] * len(before)
    return menu.press(last)


@pytest.mark.parametrize(("keys", "chosen"), [("y", YES), ("N", NO), ("x1y", YES), ("x", None)])
def test_a_key_chooses_at_once_and_others_mean_nothing(keys: str, chosen: Choice | None):
    assert pressed(Menu([YES, NO]), keys) == chosen


def asking() -> Menu:
    lasting = [Choice("a1", "the file", "a1"), Choice("a2", "the folder", "a2")]
    choices = [YES, Choice("a", "always", "a"), NO]
    return Menu(choices, selected=2, behind={"a": lasting}, takes_words=True)


def test_lasting_choices_open_behind_a_key_and_wait_for_more():
    menu = asking()

    assert pressed(menu, "a") is menu.find_highlighted() is None
    assert [one.value for one in menu.list_offered()] == ["a1", "a2"]
    menu.move("", -1)
    assert menu.find_highlighted().value == "a2"
    menu.move("", 1)
    assert menu.find_highlighted().value == "a1"
    assert pressed(menu, "yna2").value == "a2"


def test_typing_narrows_a_menu_that_can_be_searched():
    menu = sessions()

    assert [one.value for one in menu.list_offered("session 2")] == [
        "2",
        "12",
        *map(str, range(20, 30)),
    ]
    assert menu.find_highlighted("session 29") == Choice("29", "session 29")
    assert menu.find_highlighted("nothing like it") is None
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

    assert [menu.value_of(line) for line in ("y", " A1 ", "nope")] == ["y", "a1", "nope"]
    assert any("[a1]" in line for line in menu.plain_lines())
    assert not any("[a]" in line for line in menu.plain_lines())
