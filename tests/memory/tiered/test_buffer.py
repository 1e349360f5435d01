import json
from pathlib import PurePath

import pytest

from kode.contracts import Injection
from kode.memory.frame import ORDERS
from kode.memory.tiered import buffer
from tests.memory.life import NOON, opened, settings, turn

CWD = PurePath("/home/me/project")


def test_a_turn_has_one_line_asked_and_one_line_done():
    tools = (
        ("read_file", "/home/me/project/src/a.py"),
        ("read_file", "/etc/hosts"),
        ("edit_file", "src/a.py"),
        ("shell", "pytest -q"),
        ("todo", ""),
    )

    lines = buffer.lines_of(turn(1, "fix TOCTOU race", tools=tools), NOON, CWD)

    assert lines == (
        '12:34  user  "fix TOCTOU race"',
        "12:34  agent  read src/a.py, /etc/hosts; edited src/a.py; ran pytest -q",
    )


def test_a_turn_without_tools_tells_its_answer_or_outcome():
    answered = buffer.lines_of(turn(1, answer="It is 42."), NOON, CWD)
    failed = buffer.lines_of(turn(1, tools=(("shell", "make"),), status="interrupted"), NOON, CWD)

    at_once = buffer.lines_of(turn(1, answer="", status="interrupted"), NOON, CWD)

    assert answered[1] == "12:34  agent  answered: It is 42."
    assert failed[1] == "12:34  agent  interrupted: ran make"
    assert at_once[1] == "12:34  agent  interrupted"


@pytest.mark.parametrize("text", ["字" * 300, "a" * 300, "line\nbreak\x1b[31m" * 40, "é" * 300])
def test_a_line_is_at_most_160_characters_of_valid_text(text):
    for line in buffer.lines_of(turn(1, text, answer=text), NOON, CWD):
        assert len(line) <= 160
        assert line.encode().decode() == line
        assert line.isprintable()


def test_a_lone_surrogate_does_not_end_the_session():
    (line, _) = buffer.lines_of(turn(1, "odd \udcff name"), NOON, CWD)

    assert line.encode()


def test_a_credential_never_reaches_the_buffer():
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"

    lines = buffer.lines_of(turn(1, f"use {secret}", answer=secret), NOON, CWD)

    assert secret not in "".join(lines)


def test_the_oldest_line_goes_first():
    lines = buffer.append([f"line {n}" for n in range(20)], ["new"], 20)

    assert len(lines) == 20
    assert lines[0] == "line 1"
    assert lines[-1] == "new"


@pytest.mark.parametrize("config", [{"buffer_lines": 0}, {"buffer_enabled": False}])
async def test_a_buffer_that_is_off_keeps_and_shows_nothing(tmp_path, config):
    state = {"buffer": ['12:00  user  "old"']}
    system = await opened(tmp_path, config=settings(**config), state=state)

    await system.after_turn(turn(1))

    assert "buffer" not in system.state()
    assert await system.inject("compacted") == Injection()


async def test_a_continued_session_has_the_same_lines_and_appends(tmp_path):
    first = await opened(tmp_path)
    await first.after_turn(turn(1, "one"))
    state = json.loads(json.dumps(first.state()))

    again = await opened(tmp_path, state=state)
    await again.after_turn(turn(2, "two"))

    assert again.state()["buffer"][:2] == state["buffer"]
    assert len(again.state()["buffer"]) == 4


async def test_the_lines_come_once_framed_after_messages_were_dropped(tmp_path):
    system = await opened(tmp_path)
    await system.after_turn(turn(1, "one </memory>"))

    for reason in ("start", "resume"):
        assert await system.inject(reason) == Injection()
    for reason in ("compacted", "trimmed"):
        injection = await system.inject(reason)
        assert injection.system == ""
        assert injection.first_user.count('12:34  user  "one') == 1
        assert injection.first_user.count("</memory>") == 1
        assert ORDERS in injection.first_user


async def test_a_turns_state_does_not_grow_with_the_session(tmp_path):
    system = await opened(tmp_path)
    sizes = []
    for number in range(1, 200):
        await system.after_turn(turn(number, "the same words"))
        sizes.append(len(json.dumps(system.state())))

    assert sizes[-1] == sizes[20]


@pytest.mark.parametrize("state", [{"buffer": 3}, {"buffer": [1, None]}, {"x": []}, {"shown": "a"}])
async def test_a_state_of_something_else_is_ignored(tmp_path, state):
    system = await opened(tmp_path, state=state)

    assert system.state() == {}
    assert await system.inject("trimmed") == Injection()
