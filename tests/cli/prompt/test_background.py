import asyncio
import io
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from kode.cli.prompt.slash import COMMANDS
from kode.cli.prompt.state import PromptState
from kode.cli.prompt.submit import press, show_details, submit
from kode.cli.screen.render import Renderer
from kode.cli.screen.screen import Screen
from kode.events import TurnEnded
from kode.messages import Usage
from tests.cli.fake_conversation import FakeConversation


class Command:
    """A command that runs until it is told to end."""

    def __init__(self, command="npm run dev", output="ready\non 3000\n", path=None, ran_s=0.0):
        self.command = command
        self.since = time.monotonic() - ran_s
        self.capture = SimpleNamespace(path=path)
        self._output = output
        self.over = asyncio.Event()

    def output(self):
        return self._output

    async def ended(self):
        await self.over.wait()
        return "exit status 0"

    async def end(self):
        self.over.set()


class Typist:
    asking = False
    away = False

    def __init__(self, stream, *answers):
        self.stream = stream
        self.answers = list(answers)
        self.labels = []
        self.rings = ""
        self.stopped = False

    def idle_s(self):
        return 60.0

    def control(self, sequence):
        self.rings += sequence

    def print_above(self, text):
        self.stream.write(text)

    def redraw(self):
        pass

    def stop(self):
        self.stopped = True

    async def read_answer(self, label, menu=None):
        self.labels.append(label)
        return self.answers.pop(0)


class Chat:
    def __init__(self, folder):
        self.stream = io.StringIO()
        screen = Screen(
            stream=self.stream,
            rich_terminal=False,
            color=False,
            columns=lambda: 80,
            rows=lambda: 24,
        )
        renderer = Renderer(screen)
        self.talk = FakeConversation(folder, folder, emit=renderer.emit, pause_s=0)
        self.state = PromptState(screen, renderer, COMMANDS, opened=self.talk)

    async def type(self, line):
        before = len(self.stream.getvalue())
        submit(self.state, line)
        while self.state.is_busy or self.state.beside:
            await asyncio.sleep(0.001)
        self.state.screen.flush()
        return self.stream.getvalue()[before:]


@pytest.fixture
async def chat(tmp_path):
    chat = Chat(tmp_path)
    yield chat
    await chat.talk.commands.close()


async def test_an_empty_list_says_how_to_use_it(chat):
    text = await chat.type("/bg")

    assert "No background commands." in text
    assert "/bg read ID shows an output, /bg kill ID" in text


async def test_the_list_has_state_time_command_and_last_line(chat):
    chat.talk.commands.take(Command(ran_s=3600.0), None)
    done = Command("make", "all\nbuilt\n", ran_s=3600.0)
    chat.talk.commands.take(done, None)
    done.over.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    lines = (await chat.type("/bg")).split("\n")

    assert lines[0].startswith("bg1  running · 1h 00m · npm run dev")
    assert lines[1] == "     on 3000"
    assert lines[2].startswith("bg2  exit status 0 · 1h 00m · make")


async def test_reading_shows_the_last_lines_and_the_full_path(chat):
    output = "".join(f"line {n}\n" for n in range(60)) + "\x1b[2Jevil"
    chat.talk.commands.take(Command(output=output, path=Path("/tmp/x.txt")), None)

    text = await chat.type("/bg read 1")

    assert "… 21 lines before\nline 21\n" in text
    assert "evil" in text
    assert "\x1b" not in text
    assert "Full output: /tmp/x.txt" in text


async def test_killing_ends_it_once(chat):
    command = Command()
    chat.talk.commands.take(command, None)

    assert "Stopped bg1: npm run dev" in await chat.type("/bg kill bg1")
    assert command.over.is_set()
    assert "Ended already: bg1" in await chat.type("/bg kill bg1")


@pytest.mark.parametrize("line", ["/bg stop 1", "/bg read", "/bg kill", "/bg all"])
async def test_an_unknown_word_is_answered_with_the_known_ones(chat, line):
    text = await chat.type(line)

    assert "Error: " in text
    assert "/bg kill ID" in text


@pytest.mark.parametrize(("answer", "leaves"), [("", False), ("n", False), ("y", True)])
async def test_leaving_is_asked_about_while_something_runs(chat, answer, leaves):
    chat.talk.commands.take(Command(), None)
    chat.state.screen.editor = typist = Typist(chat.stream, answer)

    text = await chat.type("/quit")

    assert "bg1  running" in text
    assert len(typist.labels) == 1
    assert chat.state.leaving is leaves


async def test_leaving_is_not_asked_about_while_nothing_runs(chat):
    command = Command()
    chat.talk.commands.take(command, None)
    await chat.type("/bg kill 1")

    await chat.type("/quit")

    assert chat.state.leaving


async def test_a_key_that_is_held_down_begins_a_command_once(chat):
    chat.talk.commands.take(Command(), None)
    chat.state.screen.editor = typist = Typist(chat.stream, "n")

    press(chat.state, "/quit")
    press(chat.state, "/quit")
    while chat.state.beside:
        await asyncio.sleep(0.001)

    assert len(typist.labels) == 1


@pytest.mark.parametrize(
    ("duration_ms", "status", "rings"),
    [
        (31_000, "success", "\a"),
        (31_000, "error", "\a"),
        (29_000, "success", ""),
    ],
)
async def test_the_end_of_a_long_turn_rings(chat, duration_ms, status, rings):
    async def turn(text, **asked):
        return TurnEnded(
            status=status,
            result="",
            error=None,
            steps=1,
            usage=Usage(),
            cost_usd=None,
            files_changed=(),
            duration_ms=duration_ms,
        )

    chat.talk.turn = turn
    chat.state.screen.editor = typist = Typist(chat.stream)

    await chat.type("go")

    assert typist.rings == rings


async def pressed(chat):
    """What the key for details shows."""
    begun = len(chat.stream.getvalue())
    show_details(chat.state)
    while chat.state.beside:
        await asyncio.sleep(0)
    return chat.stream.getvalue()[begun:]


async def test_the_details_say_when_there_is_nothing(chat):
    await chat.type("/status")
    assert "The model has not called a tool yet." in await pressed(chat)


async def test_the_newest_call_is_printed_where_no_pager_is(chat):
    await chat.type("fix it")

    text = await pressed(chat)

    assert "── Running pytest -q" in text or "── Ran pytest -q" in text
    assert "E  assert 1 == 2" in text
    assert "Edited calc.py" not in text
