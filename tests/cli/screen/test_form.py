import pytest

from kode.cli.screen.question import make_elicit
from kode.extensions.mcp_config import ElicitField, ElicitForm
from tests.cli.terminals import Person, make_screen

FIELDS = (
    ElicitField(name="name", title="Your name", kind="text", required=True),
    ElicitField(name="age", title="Age", kind="integer", default=30),
    ElicitField(name="colour", title="Colour", kind="choice", options=("red", "green")),
    ElicitField(name="sure", title="Sure?", kind="boolean"),
)


async def filled(*answers, **form):
    person = Person(*answers)
    screen = make_screen(rich_terminal=True, editor=person)
    elicit = make_elicit(screen)
    given = {"server": "s", "message": "Who are you?", "fields": FIELDS, **form}
    answer = await elicit(ElicitForm(**given))
    screen.flush()
    return answer, person.shown


async def test_each_field_gets_its_kind_of_value():
    answer, shown = await filled("yes", "Ann", "41", "red", "yes")
    assert answer == {"name": "Ann", "age": 41, "colour": "red", "sure": True}
    assert "The MCP server s asks" in shown
    assert "Who are you?" in shown


async def test_defaults_of_choices_are_taken_too():
    fields = (
        ElicitField(
            name="status", title="Status", kind="choice", options=("on", "off"), default="off"
        ),
        ElicitField(name="sure", title="Sure?", kind="boolean", default=True),
    )
    answer, _ = await filled("yes", "", "", fields=fields)
    assert answer == {"status": "off", "sure": True}


async def test_a_value_that_does_not_fit_is_asked_for_again():
    answer, shown = await filled("yes", "Ann", "old", "41", "", "")
    assert answer == {"name": "Ann", "age": 41}
    assert "not a valid integer" in shown


@pytest.mark.parametrize("answers", [("no",), (None,), ("",), ("yes", ""), ("yes", None)])
async def test_no_and_a_required_field_left_empty_decline(answers):
    answer, shown = await filled(*answers)
    assert answer is None
    assert "Declined." in shown


async def test_a_page_is_shown_and_never_opened():
    answer, shown = await filled("yes", fields=(), url="https://example.org/login")
    assert answer == {}
    assert "https://example.org/login" in shown


async def test_words_of_a_server_control_no_terminal():
    _, shown = await filled("no", message="a\x1b[2Jb\u202ec")
    assert "\x1b[2J" not in shown
    assert "\u202e" not in shown
