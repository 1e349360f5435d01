"""Which quotations are words in which the person states something."""

import pytest

from kode.memory.source import verify_quote

STATED = [
    ("The API listens on port 8080", "FYI: The API listens on port 8080."),
    ("the API listens on port 8080", "Note that the API\n  listens on port 8080, then fix it"),
    ('"Answer in German."', "Hi! Answer in German. Is that fine?"),
    ("Use Python 3.12 here", "Use Python 3.12 here. What else?"),
    ("用户喜欢中文", "记住：用户喜欢中文。还有吗？"),
    ("we use fly", "Do we use fly?\nYes, we use fly now"),
]
NOT_STATED = [
    ("the API listens on port 7000", "Is it true that the API listens on port 7000?"),
    ("the API listens on port 7000", "Somebody claims the API listens on port 7000?! Check it"),
    ("we deploy with fly", "Do we deploy with fly or with heroku?"),
    ("the port is 80", "the port is 8080"),
    ("I prefer tabs", "Please fix the tests"),
    ("i prefer tabs", "I prefer tabs"),
    ("Commit messages in English please", "Commit messages in English, please"),
    ("German", "Answer in German"),
    ("", "Answer in German"),
    ("ist das so", "Ist das so？ Ja, ist das so?"),
    ("喜欢中文", "用户喜欢中文吗？"),
]


@pytest.mark.parametrize(("quote", "message"), STATED)
def test_words_of_a_typed_statement_are_the_persons(quote, message):
    found = verify_quote(quote, ["Something else.", message])
    assert found
    assert found in " ".join(message.split())


@pytest.mark.parametrize(("quote", "message"), NOT_STATED)
def test_other_words_and_questions_are_no_statement(quote, message):
    assert verify_quote(quote, [message]) == ""
