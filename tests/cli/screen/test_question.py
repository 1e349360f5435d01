import io
from types import SimpleNamespace

import pytest

from kode.cli.screen.question import make_ask, parse_answer
from kode.cli.screen.screen import Screen
from kode.permissions.gate import Answer, Question


class Person:
    """Answers questions from a list, and keeps what was shown."""

    asking = False
    away = False
    notifier = SimpleNamespace(tell=lambda text: None)

    def __init__(self, *answers):
        self.answers = list(answers)
        self.shown = ""
        self.waited = 0

    def print_above(self, text):
        self.shown += text

    def redraw(self):
        pass

    async def quiet(self, pause_s):
        assert self.shown == "" or self.answers
        self.waited += 1

    async def read_answer(self, label):
        return self.answers.pop(0)


def question(**changes):
    values = {
        "tool": "shell",
        "subject": "rm -rf build",
        "title": "Run a command",
        "preview": "rm -rf build",
        "reason": "it deletes files",
        "may_always": True,
        "rules": ("shell(rm:*)",),
    }
    return Question(**{**values, **changes})


def asked(*answers, clock=lambda: 0.0):
    person = Person(*answers)
    screen = Screen(
        stream=io.StringIO(),
        rich_terminal=False,
        color=False,
        columns=lambda: 80,
        rows=lambda: 24,
        editor=person,
    )
    return make_ask(screen, clock), person


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("y", Answer(choice="once")),
        ("YES ", Answer(choice="once")),
        ("s", Answer(choice="session")),
        ("p", Answer(choice="project")),
        ("n", Answer(choice="no")),
        ("", Answer(choice="no")),
        (None, Answer(choice="no")),
        ("no, use trash", Answer(choice="no", message="use trash")),
        ("use trash", Answer(choice="no", message="use trash")),
        ("nothing of the kind", Answer(choice="no", message="nothing of the kind")),
        ("yes but later", Answer(choice="no", message="yes but later")),
    ],
)
def test_an_answer_is_a_choice_or_a_no_with_a_word(line, answer):
    assert parse_answer(line, question(), by_habit=False) == answer


def test_always_is_not_taken_where_it_is_not_offered():
    assert parse_answer("s", question(may_always=False), by_habit=False) is None
    assert parse_answer("p", question(may_always=False), by_habit=False) is None


async def test_the_whole_preview_is_shown_however_long():
    ask, person = asked("y")
    preview = "\n".join(f"line {n}" for n in range(500))

    answer = await ask(question(preview=preview))

    assert answer.choice == "once"
    assert all(f"line {n}\n" in person.shown for n in range(500))
    assert person.waited == 1


async def test_characters_that_hide_something_are_made_visible():
    ask, person = asked("n")

    await ask(question(preview="ls\x1b[2K\x08; rm -rf ~ \u202e"))

    assert not {"\x1b", "\x08", "\u202e"} & set(person.shown)
    assert "; rm -rf ~" in person.shown
    assert "1b" in person.shown


async def test_always_is_not_shown_where_it_is_not_offered():
    ask, person = asked("s", "n")

    answer = await ask(question(may_always=False))

    assert answer.choice == "no"
    assert "always" not in person.shown


async def test_the_subagent_that_asks_is_named():
    ask, person = asked("n")

    await ask(question(asker="agent 2"))

    assert "Run a command (asked by agent 2)" in person.shown


async def test_after_three_approvals_in_a_minute_a_word_has_to_be_typed():
    ask, person = asked("y", "y", "y", "y", "yes")
    for _ in range(3):
        await ask(question())
    assert "type the whole word" not in person.shown

    answer = await ask(question())

    assert answer.choice == "once"
    assert "type the whole word" in person.shown
    assert person.answers == []


async def test_another_tool_or_a_minute_later_one_key_is_enough_again():
    now = [0.0]
    ask, person = asked("y", "y", "y", "y", "y", clock=lambda: now[0])
    for _ in range(3):
        await ask(question())

    await ask(question(tool="edit_file"))
    now[0] = 61.0
    await ask(question())

    assert person.answers == []
    assert "type the whole word" not in person.shown


async def test_approvals_are_counted_by_kind_whatever_the_tool() -> None:
    ask, person = asked("y", "y", "y", "y", "y", "yes")
    for tool in ("write_file", "edit_file", "write_file"):
        await ask(question(tool=tool, kind="edit"))
    await ask(question(kind="run network"))
    assert "type the whole word" not in person.shown

    answer = await ask(question(tool="edit_file", kind="edit"))

    assert answer.choice == "once"
    assert "type the whole word" in person.shown


def test_one_mistyped_key_is_asked_about_again_rather_than_told_to_the_model() -> None:
    assert parse_answer("1", question(), by_habit=False) is None
    assert parse_answer("x", question(), by_habit=False) is None
    assert parse_answer("no", question(), by_habit=False) == Answer(choice="no")
