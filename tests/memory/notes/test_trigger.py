import pytest

from kode.memory.notes.system import is_command
from tests.tables import for_each


@pytest.mark.parametrize(
    "text", ["remember I use fish", "Remember: deploys are on Friday", "remember,\nthat it is slow"]
)
def test_a_message_that_begins_with_remember_is_the_command(text):
    assert is_command(text)


@for_each(
    "text",
    [
        "Forget the note about the VPN",
        "please remember that I use fish",
        "do you remember where the parser is?",
        "the remembered-set of the collector is wrong",
        "remembering the past",
        "note: the API is frozen",
        "remember",
        "",
    ],
)
def test_the_word_anywhere_else_keeps_nothing(text):
    assert not is_command(text)
