import asyncio
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from kode.cli.prompt.submit import run_key_command, show_details
from tests.cli.prompt.test_state import Chat
from tests.cli.some_events import ended
from tests.cli.terminals import Person


class Command:
    """A command that runs until it is told to end."""

    untrusted = ""

    def __init__(self, command="npm run dev", output="ready\non 3000\n", path=None, ran_s=0.0):
        self.command = command
        self.since = time.monotonic() - ran_s
        self.capture = SimpleNamespace(path=path)
        self._output = output
        self.over = asyncio.Event()

    def output(self):
        return self._output

    async def wait_for_end(self):
        await self.over.wait()
        return "exit status 0"

    async def end(self):
        self.over.set()


@pytest.fixture
async def chat(tmp_path):
    chat = Chat(tmp_path)
    yield chat
    await chat.talk.commands.close()


async def test_the_list_has_state_time_command_and_output(chat):
    assert "No background commands." in await chat.type("/bg")
    chat.talk.commands.take(Command(path=Path("/tmp/x.txt"), ran_s=3600.0), None)
    done = Command("make", "all\nbuilt\x1b[2J\n", ran_s=3600.0)
    chat.talk.commands.take(done, None)
    done.over.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    lines = (await chat.type("/bg")).split("\n")[1:]

    assert lines[0].startswith("bg1  running · 1h 00m · npm run dev")
    assert lines[1:3] == ["     on 3000", "     /tmp/x.txt"]
    assert lines[3].startswith("bg2  exit status 0 · 1h 00m · make")
    assert "\x1b" not in lines[4]


async def test_killing_ends_it_once(chat):
    command = Command()
    chat.talk.commands.take(command, None)

    assert "Stopped bg1: npm run dev" in await chat.type("/bg kill bg1")
    assert command.over.is_set()
    assert "Ended already: bg1" in await chat.type("/bg kill bg1")
    assert "know 'stop 1'" in await chat.type("/bg stop 1")


@pytest.mark.parametrize(("answer", "leaves"), [("", False), ("n", False), ("y", True)])
async def test_leaving_is_asked_about_once_while_something_runs(chat, answer, leaves):
    chat.talk.commands.take(Command(), None)
    chat.state.screen.editor = person = Person(answer)

    run_key_command(chat.state, "/quit")
    run_key_command(chat.state, "/quit")
    await chat.settled()
    chat.state.screen.flush()

    assert "bg1  running" in person.shown
    assert person.answers == []
    assert chat.state.leaving is leaves


@pytest.mark.parametrize(("duration_ms", "rings"), [(31_000, "\a"), (29_000, "")])
async def test_the_end_of_a_long_turn_rings(chat, duration_ms, rings):
    async def turn(text, **more):
        return replace(ended(), duration_ms=duration_ms)

    chat.talk.turn = turn
    chat.state.screen.editor = person = Person()

    await chat.type("go")

    assert person.sent == rings


async def test_a_key_shows_the_last_calls_in_full(chat):
    async def pressed():
        begin = len(chat.text)
        show_details(chat.state)
        await chat.settled()
        return chat.text[begin:]

    assert "not called a tool" in await pressed()
    await chat.type("fix it")

    text = await pressed()
    assert "── Failed: running pytest -q" in text or "── Ran pytest -q" in text
    assert "E  assert 1 == 2" in text
    assert "Edited calc.py" in text
