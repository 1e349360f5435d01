from kode.cli.screen.menu import CUT, Choice, Menu
from tests.cli.terminals import make_screen

SCREEN = make_screen()
YES, NO = Choice("y", "yes", "y"), Choice("n", "no", "n")


def sessions() -> Menu:
    choices = [Choice(str(number), f"session {number}") for number in range(30)]
    return Menu(choices, is_searchable=True)


def asking() -> Menu:
    lasting = [Choice("a1", "the file", "1"), Choice("a2", "the folder", "2")]
    choices = [YES, Choice("a", "always", "a"), NO]
    return Menu(choices, selected=2, behind={"a": lasting}, takes_words=True)


def test_typing_narrows_a_menu_that_can_be_searched():
    menu = sessions()

    offered = ["2", "12", *map(str, range(20, 30))]
    assert [choice.value for choice in menu.list_offered("session 2")] == offered
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


def test_answers_stay_on_a_screen_too_small_for_their_subject():
    menu = asking()
    menu.above = lambda width: ["", "title", *"subject"]
    shown = ["title", CUT, "  y  yes", "  a  always", "› n  no"]
    assert menu.lines(SCREEN.paint, "", 40, len(shown)) == shown


def test_a_typed_line_means_a_choice():
    menu = asking()

    assert [menu.value_of(line) for line in ("y", " A1 ", "nope")] == ["y", "a1", "nope"]
    assert any("[a1]" in line for line in menu.plain_lines())
    assert not any("[a]" in line for line in menu.plain_lines())
