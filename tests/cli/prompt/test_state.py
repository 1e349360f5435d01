import asyncio
import io
from types import SimpleNamespace
from unittest.mock import AsyncMock

import pytest

from kode.cli.parser import HINTS
from kode.cli.prompt.repl import close_repl
from kode.cli.prompt.slash import COMMANDS
from kode.cli.prompt.state import PROMPT_ALIASES, PromptState
from kode.cli.prompt.submit import open_conversation, parse_command, run_turn, submit
from kode.cli.screen.render import Renderer
from kode.errors import SessionError
from kode.events import MemoryChanged
from kode.memory.statement import MemoryChange, Outcome
from kode.messages import Text
from kode.providers.server import ServerAnswer
from tests.cli.commands.test_session_command import made
from tests.cli.fake_conversation import FakeConversation
from tests.cli.terminals import Person, make_screen
from tests.pictures import png
from tests.tables import for_each


class Chat:
    """A REPL without a terminal: what is printed is a string, what is typed a call."""

    def __init__(self, tmp_path, width=80):
        self.stream = io.StringIO()
        screen = make_screen(width, stream=self.stream)
        renderer = Renderer(screen)
        self.talk = FakeConversation(tmp_path, tmp_path, emit=renderer.emit, pause_s=0)
        self.state = PromptState(screen, renderer, COMMANDS, opened=self.talk)

    @property
    def text(self):
        return self.stream.getvalue()

    async def type(self, *lines):
        for line in lines:
            submit(self.state, line)
        await self.settled()
        return self.text

    async def settled(self):
        while self.state.is_busy or self.state.beside or self.state.queued:
            await asyncio.sleep(0.001)

    async def running(self):
        submit(self.state, "slow")
        while not self.talk.turns:
            await asyncio.sleep(0.001)


@pytest.fixture
def chat(tmp_path):
    return Chat(tmp_path)


async def test_a_pasted_block_does_not_count_as_typed(chat):
    pastes = chat.state.pastes
    chat.state.editor = SimpleNamespace(append_history=lambda text: None)
    line = f"echo {pastes.fold(chr(10).join('abcdefg'))}"

    await run_turn(chat.state, pastes.unfold(line), line)
    assert chat.talk.typed == line == "echo [pasted 7 lines]"
    await run_turn(chat.state, "echo")
    assert chat.talk.typed == "echo"
    chat.state.steering.append(line)
    assert chat.state.take_steering() == [Text(text=pastes.unfold(line), typed=line)]


async def test_lines_typed_during_a_turn_are_sent_in_order(chat):
    submit(chat.state, "echo")
    submit(chat.state, "second")
    turn = chat.state.job
    while not turn.done():  # what follows it has not begun yet
        await asyncio.sleep(0)
    await chat.type("third")

    assert chat.talk.asked == ["echo", "second", "third"]


async def test_lines_typed_before_the_conversation_opens_wait_for_it(chat):
    go = asyncio.Event()

    async def opening():
        await go.wait()
        return chat.talk

    chat.state.opened = None
    open_conversation(chat.state, opening)
    submit(chat.state, "echo")
    submit(chat.state, "/cost")
    opening_line, *queued = [line.split(" (")[0] for _, line in chat.state.live_lines(80, 9)]
    assert "Opening" in opening_line
    assert queued == ["queued: echo", "queued: /cost"]
    go.set()
    await chat.settled()

    assert chat.talk.asked == ["echo"]
    assert "this session" in chat.text


async def test_messages_typed_while_it_opens_come_before_later_ones(chat):
    async def opening():
        return chat.talk

    chat.state.editor = SimpleNamespace()
    chat.state.opened = None
    open_conversation(chat.state, opening)
    submit(chat.state, "slow")
    submit(chat.state, "first")
    while not chat.talk.turns:
        await asyncio.sleep(0.001)
    submit(chat.state, "second")

    assert chat.state.steering == ["first", "second"]
    chat.state.editor = None
    chat.state.interrupt()
    await chat.settled()


async def test_a_conversation_that_cannot_be_opened_ends_the_repl(chat):
    async def opening():
        raise SessionError("No key. Run `kode init`.")

    chat.state.opened = None
    open_conversation(chat.state, opening)
    await chat.settled()
    await close_repl(chat.state)

    assert chat.state.leaving
    assert str(chat.state.fault) == "No key. Run `kode init`."


async def test_stopping_ends_the_turn_once_and_leaves_a_usable_prompt(chat):
    await chat.running()

    assert chat.state.interrupt()
    assert chat.state.interrupt()
    await chat.settled()

    assert chat.talk.cancelled == 1
    assert "Stopped." in chat.text
    assert not chat.state.interrupt()
    assert "You said: echo" in await chat.type("echo")


async def test_an_unread_message_returns_to_the_line_when_stopped(chat):
    line = []
    chat.state.editor = SimpleNamespace(put_back=line.append)

    submit(chat.state, "read it")
    submit(chat.state, "then this")
    chat.state.interrupt()
    await chat.state.wait_until_idle()

    assert line == ["read it"]
    assert chat.state.live_lines(80, 10) == [("dim", "queued: then this (↑ to edit)")]
    assert chat.talk.asked == []
    assert chat.text == ""


async def test_steering_that_no_step_took_becomes_the_next_message(chat):
    await chat.running()
    submit(chat.state, "use tabs")
    submit(chat.state, "later", later=True)

    assert chat.state.take_steering() == [Text(text="use tabs")]
    assert chat.state.take_steering() == []
    submit(chat.state, "too late")
    chat.state.job.cancel()
    await chat.settled()

    assert chat.talk.asked[1:] == ["too late", "later"]


@pytest.mark.parametrize("named", ["@shot.png", '@"my pics/red.png"'])
async def test_a_message_that_brings_an_attachment_waits_for_its_turn(chat, named):
    for path in ("shot.png", "my pics/red.png", "src/a.py"):
        (chat.talk.cwd / path).parent.mkdir(exist_ok=True)
        (chat.talk.cwd / path).write_bytes(png())
    await chat.running()

    submit(chat.state, f"look at {named}")
    submit(chat.state, "look at @src/a.py, it doesn't run")

    assert chat.state.queued == [f"look at {named}"]
    assert chat.state.take_steering() == [Text(text="look at @src/a.py, it doesn't run")]
    chat.state.interrupt()
    await chat.settled()


async def test_a_rewind_says_which_files_it_would_change(chat):
    chat.talk.asked += ["fix it", "explain"]
    chat.state.screen.read_answer = AsyncMock(return_value="")

    assert "changed since: calc.py, notes.txt\n" in await chat.type("/rewind 1")
    assert "no files changed" in await chat.type("/rewind 2")


async def test_a_rewind_can_be_undone_and_says_what_is_unanswered(chat):
    chat.talk.rewound = chat.talk.cut_short = True
    text = await chat.type("/rewind undo")
    assert "Resumed 20260101-000000-abcdef" in text
    assert "kode was stopped" in text


async def test_harmless_commands_run_beside_a_turn_and_others_wait(chat):
    await chat.running()
    submit(chat.state, "/cost")
    submit(chat.state, "/compact")
    while "last turn · big-model" not in chat.text:
        await asyncio.sleep(0.001)

    assert chat.state.queued == ["/compact"]
    chat.state.interrupt()
    await chat.settled()


async def test_a_side_question_is_answered_beside_a_turn(chat):
    await chat.running()
    submit(chat.state, "/btw does it?")
    submit(chat.state, "/btw for long?")
    while "btw: does it?" not in chat.text:
        await asyncio.sleep(0)
    assert "btw: does it?\n│ does it? It does.\n" in chat.text
    assert [line for _, line in chat.state.live_lines(80, 9)][-1] == "btw: for long? (Esc stops it)"
    chat.state.interrupt()
    while chat.state.beside:
        await asyncio.sleep(0)
    assert (chat.state.is_busy, len(chat.state.beside)) == (True, 0)
    chat.state.interrupt()
    await chat.settled()


async def test_leaving_stops_the_turn_closes_and_says_how_to_resume(chat):
    await chat.running()

    chat.state.leave()
    await close_repl(chat.state)

    assert chat.talk.cancelled == 1
    assert chat.talk.closed
    assert chat.text.endswith("kode -r 20260101-000000-abcdef\n")


async def test_a_fault_in_kode_leaves_the_prompt_alive(chat, monkeypatch, tmp_path):
    monkeypatch.setenv("KODE_HOME", str(tmp_path / "home"))
    chat.talk.diffs = lambda: 1 // 0

    assert str(tmp_path / "home/logs") in await chat.type("/diff")
    assert "You said" in await chat.type("echo")


@for_each(
    ("typed", "command"),
    [
        ("/clear", ("/new", "")),
        ("/exit", ("/quit", "")),
        ("exit", ("/quit", "")),
        (" quit ", ("/quit", "")),
        ("?", ("/help", "")),
        ("/usage", ("/cost", "")),
        ("/skills", ("/extensions", "skills")),
        ("/mcp", ("/extensions", "mcp")),
        ("# tabs, not spaces", ("/remember", "tabs, not spaces")),
        ("#12 fails on main", None),
        ("#!/bin/sh", None),
        ("# Title\n\nA text that was pasted.", None),
        ("exit code 3, why?", None),
        ("/usr/bin/env is missing", None),
        ("/help me", ("/help", "me")),
        ("?!", None),
    ],
)
def test_commands_of_other_agents_lead_to_their_like_here(typed, command):
    assert parse_command(typed) == command


def test_aliases_lead_to_commands_and_shadow_none():
    assert {name.partition(" ")[0] for name in PROMPT_ALIASES.values()} <= set(COMMANDS)
    assert not (set(PROMPT_ALIASES) | set(HINTS)) & set(COMMANDS)


async def test_a_foreign_command_with_no_counterpart_gets_its_sentence(chat):
    for name, said in [row for row in HINTS.items() if row[0].startswith("/")]:
        assert said in (await chat.type(name)).replace("\n", " ")
    assert chat.talk.asked == []


async def test_a_model_missing_on_a_local_server_is_refused(chat, monkeypatch):
    answer = ServerAnswer(url="x", state="ok", detail="", models=("qwen2.5-coder:latest", "llama"))
    monkeypatch.setattr("kode.providers.server.reach_server", lambda choice: answer)

    text = await chat.type("/model ollama/qwen2.5-codr")

    assert "qwen2.5-coder:latest" in text
    assert chat.talk.model == "big-model"
    assert "qwen2.5-coder (ollama)" in await chat.type("/model ollama/qwen2.5-coder")


async def test_extensions_lists_each_kind_or_one(chat):
    text = await chat.type("/extensions")
    assert all(f"No {word} here" in text for word in ("skills", "commands", "agents", "hooks"))
    assert "No skills here" in await chat.type("/skills")
    assert "No MCP servers" in await chat.type("/mcp")
    assert "/extensions takes skills" in await chat.type("/extensions none")


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("/new", "New session."),
        ("/model small", "Model: small (anthropic)"),
        ("/memory search 'two words'", "memory: search two words"),
        ("/memory", "memory: show"),
        ("/memory 'open", "Close the quotes"),
        ("/compact", "Nothing to compact"),
        ("/undo", "restored calc.py"),
        ("/redo", "brought back calc.py"),
        ("/undo 3", "/undo takes no argument"),
        ("/diff nothing.py", "No file with 'nothing.py' in its name was changed"),
        ("/diff calc", "+     return a + b"),
        ("/permissions plan", "Mode: plan. Read-only:"),
        ("/plan", "Mode: plan."),
        ("/permissions acceptEdits", "Mode: auto-edit."),
        ("# likes tabs", "memory: add user -- likes tabs"),
        ("#env: tests run with make", "memory: add env -- tests run with make"),
        ("/remember note: this", "memory: add user -- note: this"),
        ("/remember", "a line that starts with #"),
        ("/new fix the tests", "/new takes no argument"),
        ("/effort XHIGH", "Effort: xhigh"),
        ("/effort default", "Effort: model default"),
        ("/", "It needs a name. /help lists"),
        ("/hlp", "Did you mean /help?"),
        ("/modle x", "Did you mean /model?"),
        ("! ", "!ls"),
        ("/permissions plna", "Did you mean plan? Modes: ask, auto-edit, plan, full."),
        ("/rename login page", "This session is called login-page: kode -r login-page"),
        ("/rename 2026", "'2026' looks like an id. Give a name with a word"),
        ("/rename", "A name has 1 to 60 characters"),
        ("/rewind undo", "Nothing was rewound since your last message."),
        ("/theme light", "Theme: light ("),
        ("/theme neon", "it must be 'auto', 'dark', 'light', '16' or 'none'"),
        ("/vim", "Here are no keys"),
        ("/btw", "/btw QUESTION asks"),
        ("/copy", "There is no answer to copy yet."),
        ("/help keys", "Ctrl-R"),
    ],
)
async def test_commands_do_what_they_say(chat, typed, said):
    assert said in await chat.type(typed)
    assert chat.talk.asked == []


@pytest.mark.parametrize(
    ("typed", "near"),
    [("claude-sonet-5-5", " Did you mean claude-sonnet-5-5?"), ("my-own", ""), ("big-model", None)],
)
async def test_an_unknown_model_is_used_with_a_warning(chat, monkeypatch, typed, near):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    chat.talk.known = ("big-model",)

    text = await chat.type(f"/model {typed}")

    assert f"Model: {typed}" in text
    unknown = f"kode does not know {typed}.{near} If the name is right, set `context.window`"
    assert (unknown in text.replace("\n", " ")) is (near is not None)


async def test_own_shell_commands_go_with_the_next_message(chat):
    text = await chat.type("!echo hi; exit 2")

    assert "hi\nexit status 2 · " in text
    (note,) = chat.talk.attachments
    assert note.source == "attachment"
    assert "$ echo hi; exit 2\nhi" in note.text
    assert chat.talk.asked == []


async def test_a_picture_too_large_is_shrunk_and_announced(chat, tmp_path):
    from PIL import Image

    Image.new("1", (8192 * 2, 32)).save(tmp_path / "shot.png")

    text = await chat.type("look at @shot.png")

    assert "shot.png, 1568×3" in text
    assert "I see shot.png." in text


async def test_a_command_about_memory_tells_of_its_change_once(chat):
    async def add(argv):
        for id, text in (("1", "added to user"), ("2", "merged elsewhere")):
            chat.talk.emit(MemoryChanged(text=text, change_id=id))
        change = MemoryChange(id="1", who="user", kind="add", system="tiered")
        return Outcome(text="added to user", change=change)

    chat.talk.memory_command = add
    text = await chat.type("/memory add user x")
    assert text.count("added to user") == 1
    assert "undo: /memory undo 1" in text
    assert text.count("memory: merged elsewhere") == 1


@pytest.mark.parametrize("typed", ["/resume", "/resume 1", "/resume {}"])
async def test_resume_opens_a_session_by_number_or_id_prefix(chat, tmp_path, typed):
    session_id = made(tmp_path, "fix the parser", cwd=tmp_path)
    made(tmp_path, "something else", cwd=tmp_path / "other")
    chat.state.screen.editor = person = Person(session_id)

    await chat.type(typed.format(session_id[:-2]))
    chat.state.screen.flush()

    assert chat.talk.resumed == session_id
    assert f"Resumed {session_id}" in person.shown
