"""The plain prompt: a chat and a task for screen readers and logs."""

import json

import pytest

from tests.e2e.command import KODE, Place
from tests.e2e.terminal import Terminal
from tests.scripted_server import ScriptedServer

ANSWER = "# Done\n\n| file | change |\n|---|---|\n| a.py | **new** |\n"


@pytest.mark.parametrize("way", ["flag", "config", "terminal"])
def test_plain_output_is_whole_lines_without_drawing(place: Place, way: str) -> None:
    environ, flags = dict(place.environ), ["--permission-mode", "auto-edit"]
    if way == "flag":
        flags.append("--plain")
    elif way == "config":
        place.home.mkdir()
        (place.home / "config.json").write_text(json.dumps({"repl": {"plain": True}}))
    else:
        environ["TERM"] = "dumb"
    edit = {"name": "write_file", "arguments": {"path": "a.py", "content": "x\n"}}
    with ScriptedServer([{"calls": [edit]}, {"text": ANSWER}]) as server:
        environ["OPENAI_BASE_URL"] = server.openai_url
        with Terminal(KODE, flags, cwd=place.project, env=environ, width=100) as terminal:
            terminal.until(">")
            terminal.type("do it", "enter")
            text = terminal.until("2 steps")
            terminal.type("exit", "enter")
            assert terminal.ended() == 0
    assert "\nWrote a.py" in text
    assert "\n# Done\n" in text
    assert "\n| a.py | **new** |\n" in text
    assert b"\x1b" not in terminal.raw
    assert not set("●✗│─•") & set(terminal.text)


def test_a_task_shows_its_progress_plainly_too(place: Place) -> None:
    with ScriptedServer([{"text": "done"}]) as server:
        environ = {**place.environ, "OPENAI_BASE_URL": server.openai_url}
        with Terminal(KODE, ["run", "x", "--plain"], cwd=place.project, env=environ) as terminal:
            assert terminal.ended() == 0
    assert b"\x1b" not in terminal.raw
