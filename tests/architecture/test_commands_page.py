"""The page of commands and flags says what the program takes."""

from scripts.commands_page import PAGE, page


def test_the_page_of_commands_is_written_from_the_program() -> None:
    assert PAGE.read_text() == page(), "Write it again: `python -m scripts.commands_page`."
