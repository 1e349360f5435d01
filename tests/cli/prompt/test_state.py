import asyncio
import io
import json
from types import SimpleNamespace
from unittest.mock import AsyncMock

import pytest

from kode import paths
from kode.cli.flags import MODES
from kode.cli.hints import PROMPT_HINTS
from kode.cli.prompt.attach import Pastes
from kode.cli.prompt.repl import finish
from kode.cli.prompt.reports import WORDS
from kode.cli.prompt.slash import COMMANDS, FIRST, SAID_ELSEWHERE
from kode.cli.prompt.state import PROMPT_ALIASES, PromptState
from kode.cli.prompt.submit import command_of, open_conversation, submit
from kode.cli.prompt.turn import run_turn
from kode.cli.screen.render import Renderer
from kode.cli.screen.screen import Screen
from kode.errors import SessionError
from kode.events import MemoryChanged
from kode.memory.statement import Change, Outcome
from kode.messages import Text
from kode.providers.listing import Offer
from kode.session.entries import Header, MessageEntry
from tests.cli.fake_conversation import FakeConversation
from tests.pictures import png
from tests.tables import for_each


class Room:
    """A REPL without a terminal: what is printed is a string, what is typed a call."""

    def __init__(self, tmp_path, width=80):
        self.stream = io.StringIO()
        screen = Screen(
            stream=self.stream,
            rich_terminal=False,
            color=False,
            columns=lambda: width,
            rows=lambda: 24,
        )
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
        while self.state.jobs.busy or self.state.jobs.beside or self.state.waiting:
            await asyncio.sleep(0.001)

    async def running(self):
        submit(self.state, "slow")
        while not self.talk.turns:
            await asyncio.sleep(0.001)


@pytest.fixture
def room(tmp_path):
    return Room(tmp_path)


async def test_a_message_becomes_a_turn(room):
    text = await room.type("echo")

    assert room.talk.asked == ["echo"]
    assert "You said: echo" in text


async def test_a_pasted_block_does_not_count_as_typed(room):
    pastes = Pastes()
    room.state.editor = SimpleNamespace(pastes=pastes, append_history=lambda text: None)
    line = f"echo {pastes.fold(chr(10).join('abcdefg'))}"

    await run_turn(room.state, pastes.unfold(line), line)
    assert room.talk.typed == line == "echo [pasted 7 lines]"
    await run_turn(room.state, "echo")
    assert room.talk.typed == "echo"
    room.state.steering.append(line)
    assert room.state.take_steering() == [Text(text=pastes.unfold(line), typed=line)]


async def test_the_text_kode_writes_for_init_is_not_typed(room):
    await room.type("/init  briefly")

    assert room.talk.typed == "/init briefly"
    assert len(room.talk.asked[-1]) > 500


async def test_lines_typed_during_a_turn_are_sent_in_order(room):
    await room.type("echo", "second", "third")

    assert room.talk.asked == ["echo", "second", "third"]


async def test_waiting_messages_are_shown_and_can_be_taken_back(room):
    await room.running()
    submit(room.state, "now")
    submit(room.state, "last", later=True)

    shown = [line for style, line in room.state.live(80, 10) if style == "queued"]
    assert [line.split(" (")[0] for line in shown] == ["next step: now", "queued: last"]
    assert room.state.take_back() == "last"
    assert room.state.take_back() == "now"
    assert room.state.take_back() is None
    room.state.interrupt()
    await room.settled()


async def test_lines_typed_before_the_conversation_opens_wait_for_it(room):
    go = asyncio.Event()

    async def opening():
        await go.wait()
        return room.talk

    room.state.opened = None
    open_conversation(room.state, opening)
    submit(room.state, "echo")
    submit(room.state, "/cost")
    assert room.state.status(80) == [("", "")]
    opening_line, *queued = [line.split(" (")[0] for _, line in room.state.live(80, 9)]
    assert "Opening" in opening_line
    assert queued == ["queued: echo", "queued: /cost"]
    go.set()
    await room.settled()

    assert room.talk.asked == ["echo"]
    assert "this session" in room.text


async def test_messages_typed_while_it_opens_come_before_later_ones(room):
    async def opening():
        return room.talk

    pastes = SimpleNamespace(pictures_in=lambda text: [], unfold=lambda text: text)
    notifier = SimpleNamespace(setting=None)
    room.state.editor = SimpleNamespace(pastes=pastes, notifier=notifier)
    room.state.opened = None
    open_conversation(room.state, opening)
    submit(room.state, "slow")
    submit(room.state, "first")
    while not room.talk.turns:
        await asyncio.sleep(0.001)
    submit(room.state, "second")

    assert room.state.steering == ["first", "second"]
    room.state.editor = None
    room.state.interrupt()
    await room.settled()


async def test_a_resumed_session_names_itself_and_its_turns(room):
    async def opening():
        return room.talk

    room.state.opened = None
    open_conversation(room.state, opening)
    await room.settled()
    assert room.text == ""

    room.talk.turns = 3
    open_conversation(room.state, opening)
    await room.settled()
    assert "Resumed 20260101-000000-abcdef (3 turns).\n" in room.text


async def test_a_conversation_that_cannot_be_opened_ends_the_repl(room):
    async def opening():
        raise SessionError("No key. Run `kode init`.")

    room.state.opened = None
    open_conversation(room.state, opening)
    await room.settled()
    await finish(room.state)

    assert room.state.leaving
    assert str(room.state.fault) == "No key. Run `kode init`."


async def test_stopping_ends_the_turn_once_and_leaves_a_usable_prompt(room):
    await room.running()

    assert room.state.interrupt()
    assert room.state.interrupt()
    await room.settled()

    assert room.talk.cancelled == 1
    assert "Stopped." in room.text
    assert not room.state.interrupt()
    assert "You said: echo" in await room.type("echo")


async def test_an_unread_message_returns_to_the_line_when_stopped(room):
    line = []
    room.state.editor = SimpleNamespace(put_back=line.append)

    submit(room.state, "read it")
    submit(room.state, "then this")
    room.state.interrupt()
    await room.state.idle()

    assert line == ["read it"]
    assert room.state.live(80, 10) == [("queued", "queued: then this (Up to edit)")]
    assert room.talk.asked == []
    assert room.text == ""


async def test_a_message_already_begun_does_not_return_when_stopped(room):
    line = []
    await room.running()
    room.state.editor = SimpleNamespace(put_back=line.append)

    submit(room.state, "later", later=True)
    room.state.interrupt()
    await room.settled()

    assert line == ["later"]


async def test_steering_that_no_step_took_becomes_the_next_message(room):
    await room.running()
    submit(room.state, "use tabs")
    submit(room.state, "later", later=True)

    assert room.state.take_steering() == [Text(text="use tabs")]
    assert room.state.take_steering() == []
    submit(room.state, "too late")
    room.state.jobs.job.cancel()
    await room.settled()

    assert room.talk.asked[1:] == ["too late", "later"]


@pytest.mark.parametrize("named", ["@shot.png", "'my pics/red.png'", "@src/"])
async def test_a_message_that_brings_an_attachment_waits_for_its_turn(room, named):
    for path in ("shot.png", "my pics/red.png", "src/a.py"):
        (room.talk.cwd / path).parent.mkdir(exist_ok=True)
        (room.talk.cwd / path).write_bytes(png())
    await room.running()

    submit(room.state, f"look at {named}")
    submit(room.state, "look at @src/a.py, it doesn't run")

    assert room.state.waiting == [f"look at {named}"]
    assert room.state.take_steering() == [Text(text="look at @src/a.py, it doesn't run")]
    room.state.interrupt()
    await room.settled()


async def test_a_rewind_says_which_files_it_would_change(room):
    room.talk.asked += ["fix it", "explain"]
    room.state.screen.read_answer = AsyncMock(return_value="")

    assert "changed since: calc.py, notes.txt\n" in await room.type("/rewind 1")
    assert "no files changed since\n" in await room.type("/rewind 2")


async def test_a_rewind_of_the_conversation_can_be_undone(room):
    assert "Nothing was rewound since your last message." in await room.type("/rewind undo")

    room.talk.rewound = True
    assert "Resumed 20260101-000000-abcdef" in await room.type("/rewind undo")


async def test_a_resumed_session_says_that_its_last_answer_is_missing(room):
    assert "stopped before" not in await room.type("/rewind undo")

    room.talk.rewound = room.talk.cut_short = True
    assert "kode was stopped before it had answered this." in await room.type("/rewind undo")


async def test_harmless_commands_run_beside_a_turn_and_others_wait(room):
    await room.running()
    submit(room.state, "/cost")
    submit(room.state, "/compact")
    while "last turn · big-model" not in room.text:
        await asyncio.sleep(0.001)

    assert room.state.waiting == ["/compact"]
    room.state.interrupt()
    await room.settled()


async def test_leaving_stops_the_turn_closes_and_says_how_to_resume(room):
    await room.running()

    room.state.leave()
    await finish(room.state)

    assert room.talk.cancelled == 1
    assert room.talk.closed
    assert room.text.endswith("Resume with: kode -r 20260101-000000-abcdef\n")


async def test_the_resume_hint_names_the_flags_the_model_needs(room):
    await room.running()

    room.state.leave()
    await finish(room.state, "--base-url http://127.0.0.1:8080/v1")

    assert room.text.endswith("-000000-abcdef --base-url http://127.0.0.1:8080/v1\n")


async def test_a_session_without_a_turn_offers_no_resume(room):
    await finish(room.state)

    assert "Resume" not in room.text


async def test_an_error_of_a_command_is_one_line(room):
    fault = SessionError("There is no such entry. Try `/memory show`.")

    async def fail(argv):
        raise fault

    room.talk.memory_command = fail

    assert f"Error: {fault}\n" in await room.type("/memory x")


async def test_a_fault_in_kode_leaves_the_prompt_alive(room, monkeypatch, tmp_path):
    monkeypatch.setenv("KODE_HOME", str(tmp_path / "home"))
    room.talk.diffs = lambda: 1 // 0

    assert str(tmp_path / "home/logs") in await room.type("/diff")
    assert "You said" in await room.type("echo")


@pytest.mark.parametrize(("typed", "nearest"), [("/hlp", "/help"), ("/modle x", "/model")])
async def test_an_unknown_command_names_the_nearest_one(room, typed, nearest):
    text = await room.type(typed)

    assert nearest in text
    assert room.talk.asked == []


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
        ("?!", None),
    ],
)
def test_commands_of_other_agents_lead_to_their_like_here(typed, command):
    assert command_of(typed) == command


def test_aliases_lead_to_commands_and_shadow_none():
    assert {name.partition(" ")[0] for name in PROMPT_ALIASES.values()} <= set(COMMANDS)
    assert not (set(PROMPT_ALIASES) | set(PROMPT_HINTS)) & set(COMMANDS)


async def test_a_foreign_command_with_no_counterpart_gets_its_sentence(room):
    for name, said in PROMPT_HINTS.items():
        assert said in (await room.type(name)).replace("\n", " ")
    assert room.talk.asked == []


class Offered:
    """In place of the servers' lists."""

    def __init__(self, *offers):
        self.given = list(offers)

    def offers(self, config, current, *, ask=True):
        return self.given


OWN = Offer(
    provider="anthropic",
    title="Own",
    models=("big-model", "qwen2.5-coder:latest", "llama3.2:3b"),
    is_listed=True,
    is_near=True,
)
GROQ = Offer(provider="groq", title="Groq", models=("openai/gpt-oss-120b", "kimi"), is_listed=True)
BROKEN = Offer(provider="azure", title="Azure OpenAI", models=(), problem="There is no key.")


async def test_a_model_missing_on_the_own_server_is_refused(room):
    room.state.listing = Offered(OWN)

    text = await room.type("/model qwen2.5-codr")

    assert "qwen2.5-coder:latest" in text
    assert room.talk.model == "big-model"
    assert "Model: qwen2.5-coder (fake)" in await room.type("/model qwen2.5-coder")


async def test_every_provider_lists_its_models_or_its_hindrance(room):
    room.state.listing = Offered(OWN, GROQ, BROKEN)

    text = await room.type("/model")

    assert "qwen2.5-coder:latest" in text
    assert "openai/gpt-oss-120b, kimi" in text
    assert BROKEN.problem in text


async def test_naming_a_provider_lists_its_models_as_typed(room):
    room.state.listing = Offered(OWN, GROQ)

    text = await room.type("/model groq")

    assert "groq/openai/gpt-oss-120b" in text
    assert room.talk.model == "big-model"


@pytest.mark.parametrize("typed", ["groq/openai/gpt-oss-120b", "openai/gpt-oss-120b"])
async def test_a_model_of_another_provider_is_switched_to(room, typed):
    room.state.listing = Offered(OWN, GROQ)

    await room.type(f"/model {typed}")

    assert (room.talk.provider, room.talk.model) == ("groq", "openai/gpt-oss-120b")


@pytest.mark.parametrize(
    ("typed", "effort"), [("high", "high"), ("XHIGH", "xhigh"), ("default", None)]
)
async def test_a_level_sets_how_much_the_model_thinks(room, typed, effort):
    room.talk.effort = "low"

    await room.type(f"/effort {typed}")

    assert room.talk.effort == effort


async def test_an_unknown_level_changes_nothing_and_names_the_nearest(room):
    room.talk.effort = "low"

    text = await room.type("/effort hihg")

    assert "high?" in text
    assert room.talk.effort == "low"


async def test_only_the_question_is_shown_while_a_command_asks(room, monkeypatch):
    monkeypatch.setattr(type(room.state.screen), "asking", True)
    room.state.jobs.job = asyncio.ensure_future(asyncio.Event().wait())
    assert room.state.live(80, 10) == []
    room.state.jobs.job.cancel()


async def test_a_path_is_no_command(room):
    await room.type("/usr/bin/env is missing")

    assert room.talk.asked == ["/usr/bin/env is missing"]
    assert command_of("/help me") == ("/help", "me")


@pytest.mark.parametrize(
    ("typed", "said"), [("/", "It needs a name. /help lists"), ("!", "!ls"), ("! ", "!ls")]
)
async def test_a_sign_alone_is_explained_and_not_sent(room, typed, said):
    assert said in await room.type(typed)
    assert room.talk.asked == []


async def test_help_lists_the_first_commands_and_every_key(room):
    text = await room.type("/help")

    assert len(FIRST) <= 15
    assert [name for name in COMMANDS if f"  {name} " in text] == [
        name for name in COMMANDS if name in FIRST
    ]
    text += await room.type("/help keys")
    assert all(word in text for word in ("Esc Esc", "@path", "#fact", *MODES))
    assert (paths.documents() / "repl.md").is_file()


async def test_help_for_all_lists_no_synonym(room):
    text = await room.type("/help all")

    listed = {name for name in (*COMMANDS, *PROMPT_ALIASES) if f"\n  {name} " in text}
    assert listed == set(COMMANDS) - set(SAID_ELSEWHERE)


async def test_help_fits_a_small_screen(tmp_path):
    text = await Room(tmp_path, width=80).type("/help")

    assert text.count("\n") <= 22  # with the prompt and the status line: 24 rows
    assert max(map(len, text.splitlines())) <= 80


async def test_help_says_more_about_one_command(room):
    text = await room.type("/help export")

    assert all(part in text for part in ("[PATH.md or PATH.json]", "/export work.md"))
    assert "/clear" in await room.type("/help new")
    assert "Did you mean /export?" in await room.type("/help exprt")


def test_a_command_that_takes_something_has_an_example():
    assert [c.name for c in COMMANDS.values() if bool(c.takes) != bool(c.example)] == []


async def test_extensions_lists_each_kind_or_one(room):
    text = await room.type("/extensions")
    assert all(f"No {word} here" in text for word in WORDS[:4])
    assert "No skills here" in await room.type("/skills")
    assert "No MCP servers" in await room.type("/mcp")
    assert "/extensions takes skills" in await room.type("/extensions none")


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("/new", "New session."),
        ("/model small", "Model: small (fake)"),
        ("/memory search 'two words'", "memory: search two words"),
        ("/memory", "memory: show"),
        ("/memory 'open", "Close the quotes"),
        ("/compact", "Nothing to compact"),
        ("/undo", "restored calc.py"),
        ("/redo", "brought back calc.py"),
        ("/undo 3", "/undo takes no argument"),
        ("/diff nothing.py", "No changed file has 'nothing.py' in its name."),
        ("/diff calc", "+     return a + b"),
        ("/permissions plan", "Mode: plan. Read-only:"),
        ("/plan", "Mode: plan."),
        ("/permissions acceptEdits", "Mode: auto-edit."),
        ("# likes tabs", "memory: add user -- likes tabs"),
        ("#env: tests run with make", "memory: add env -- tests run with make"),
        ("/remember note: this", "memory: add user -- note: this"),
        ("/remember", "a line that starts with #"),
        ("/todos", "the model shows its list"),
        ("/config", "kode config show"),
        ("/doctor", "kode doctor"),
        ("/details", "Ctrl-O"),
        ("/permissions plna", "Did you mean plan? Modes: ask, auto-edit, plan, full."),
        ("/copy", "There is no answer to copy yet."),
    ],
)
async def test_commands_do_what_they_say(room, typed, said):
    assert said in await room.type(typed)


@pytest.mark.parametrize(
    ("typed", "near"),
    [("claude-sonet-5-5", " Did you mean claude-sonnet-5-5?"), ("my-own", ""), ("big-model", None)],
)
async def test_an_unknown_model_is_used_with_a_warning(room, monkeypatch, typed, near):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    room.talk.known = ("big-model",)

    text = await room.type(f"/model {typed}")

    assert f"Model: {typed}" in text
    unknown = f"kode does not know {typed}.{near} If the name is right, set `context.window`"
    assert (unknown in text.replace("\n", " ")) is (near is not None)


@pytest.mark.parametrize(
    ("typed", "name", "begins"),
    [
        ("/export 'my notes.md'", "my notes.md", "# Session"),
        ("/export all.json", "all.json", '{\n  "id": "20260101-000000-abcdef"'),
    ],
)
async def test_a_session_is_written_to_a_new_file(room, tmp_path, typed, name, begins):
    room.talk.session = written_session(tmp_path)

    assert f"Written to {tmp_path / name}" in (await room.type(typed)).replace("\n", "")
    text = (tmp_path / name).read_text()
    assert text.startswith(begins)
    assert "fix it with [redacted" in text
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    assert "File exists. /export NAME takes another." in (await room.type(typed)).replace("\n", " ")


async def test_an_export_without_a_name_stays_out_of_the_project(room, tmp_path):
    room.talk.session = written_session(tmp_path)
    path = room.talk.home / "exports" / f"{room.talk.session.header.id}.md"

    for _ in range(2):
        assert str(path) in (await room.type("/export")).replace("\n", "")

    assert path.read_text().startswith(f"# Session {room.talk.session.header.id}\n")
    assert path.stat().st_mode & 0o777 == 0o600


async def test_a_compaction_is_told_what_to_keep(room):
    await room.type("/compact the port numbers")

    assert room.talk.wish == "the port numbers"


async def test_own_shell_commands_go_with_the_next_message(room):
    text = await room.type("!echo hi; exit 2")

    assert "hi\nexit status 2 · " in text
    (note,) = room.talk.attachments
    assert note.source == "attachment"
    assert "$ echo hi; exit 2\nhi" in note.text
    assert room.talk.asked == []


async def test_a_named_folder_goes_along_as_a_list(room, tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src/app.py").write_text("x")

    text = await room.type("what is in @src/ ?")

    assert "src/" in text
    assert '<folder path="src/">\napp.py\n</folder>' in [a.text for a in room.talk.attachments]
    assert room.talk.asked == ["what is in @src/ ?"]


async def test_a_picture_too_large_is_shrunk_and_announced(room, tmp_path):
    from PIL import Image

    Image.new("1", (8192 * 2, 32)).save(tmp_path / "shot.png")

    text = await room.type("look at @shot.png")

    assert "shot.png, 1568×3" in text
    assert "I see shot.png." in text


async def test_own_shell_commands_go_to_the_background_too(room):
    submit(room.state, "!printf 'serving\\nGo on? '; sleep 60")
    while not room.state.unfinished:
        await asyncio.sleep(0.001)
    assert next(line for _, line in room.state.live(80, 9)) == "Go on? "

    submit(room.state, "/bg")
    await room.settled()

    assert "/bg read bg1" in room.text
    (note,) = room.talk.attachments
    assert "bg1" in note.text
    assert not room.state.jobs.busy
    await room.type("/bg kill bg1")
    assert "Stopped bg1: printf 'serving" in room.text


async def test_stopping_an_own_shell_command_is_said(room):
    submit(room.state, "!printf 'Go on? '; sleep 60")
    while not room.state.unfinished:
        await asyncio.sleep(0.001)

    room.state.interrupt()
    await room.settled()

    assert "Stopped.\n" in room.text


async def test_quit_leaves(room):
    await room.type("/quit")

    assert room.state.leaving


def written_session(folder):
    header = Header(
        id="20260101-000000-abcdef",
        created_at="2026-01-01T00:00:00Z",
        cwd=str(folder),
        model="m",
        provider="openai",
    )
    text = "fix it with sk-ant-api03-" + "Ab3dE9xQ" * 6
    said = MessageEntry(role="user", parts=(Text(text=text),))
    return SimpleNamespace(id=header.id, header=header, entries=(said,))


def kept_session(home, cwd, session_id, task):
    lines = [
        {
            "type": "session",
            "version": 1,
            "id": session_id,
            "created_at": "2026-01-01T00:00:00Z",
            "cwd": str(cwd),
            "model": "m",
            "provider": "p",
        },
        {
            "type": "message",
            "role": "user",
            "id": "a",
            "at": "2026-01-01T00:00:01Z",
            "parts": [{"type": "text", "text": task}],
        },
        {
            "type": "turn",
            "id": "b",
            "at": "2026-01-01T00:00:02Z",
            "number": 1,
            "status": "success",
            "steps": 1,
            "usage": {"input_tokens": 1, "output_tokens": 1},
            "duration_ms": 5,
            "total_usage": {"input_tokens": 1, "output_tokens": 1},
            "total_cost_usd": 0.0,
        },
    ]
    folder = home / "sessions"
    folder.mkdir(exist_ok=True)
    (folder / f"{session_id}.jsonl").write_text(
        "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    )


class Typist:
    """Answers the questions of commands."""

    asking = False
    away = False
    notifier = SimpleNamespace(tell=lambda text: None)

    def __init__(self, stream, *answers):
        self.stream = stream
        self.answers = list(answers)

    def print_above(self, text):
        self.stream.write(text)

    def redraw(self):
        pass

    async def read_answer(self, label, menu=None):
        return self.answers.pop(0)


@pytest.mark.parametrize(
    ("typed", "answers"),
    [
        ("/resume", ["20260101-000000-aaaaaa"]),
        ("/resume 1", []),
        ("/resume 20260101-000000-aaa", []),
    ],
)
async def test_resume_opens_a_session_by_number_or_id_prefix(room, tmp_path, typed, answers):
    kept_session(tmp_path, tmp_path, "20260101-000000-aaaaaa", "fix the parser")
    room.state.screen.editor = Typist(room.stream, *answers)

    await room.type(typed)
    room.state.screen.flush()

    assert room.talk.resumed == "20260101-000000-aaaaaa"
    assert "Resumed 20260101-000000-aaaaaa" in room.text


async def test_a_number_that_is_not_in_the_list_opens_nothing(room, tmp_path):
    kept_session(tmp_path, tmp_path, "20260101-000000-aaaaaa", "fix the parser")
    await room.type("/resume 7")
    room.state.screen.flush()

    assert room.talk.resumed is None
    assert "'7'" in room.text


async def test_a_command_about_memory_tells_of_its_change_once(room):
    async def add(argv):
        for id, text in (("1", "added to user"), ("2", "merged elsewhere")):
            room.talk.emit(MemoryChanged(text=text, change_id=id))
        change = Change(id="1", who="user", kind="add", system="tiered")
        return Outcome(text="added to user", change=change)

    room.talk.memory_command = add
    text = await room.type("/memory add user x")
    assert text.count("added to user") == 1
    assert "undo with: /memory undo 1" in text
    assert text.count("memory: merged elsewhere") == 1


async def test_sessions_lists_what_was_asked_in_this_directory(room, tmp_path):
    kept_session(tmp_path, tmp_path, "20260101-000000-aaaaaa", "fix the parser")
    kept_session(tmp_path, tmp_path / "other", "20260101-000000-bbbbbb", "something else")

    text = await room.type("/sessions")

    assert "1  20260101-000000-aaaaaa  " in text
    assert "      1     -  fix the parser\n" in text
    assert "bbbbbb" not in text


@pytest.mark.parametrize("typed", ["/new fix the tests", "/cost today", "/quit now"])
async def test_a_command_without_arguments_does_not_drop_what_follows_it(room, typed):
    text = await room.type(typed)

    assert f"{typed.split()[0]} takes no argument" in text
    assert not room.state.leaving


async def test_the_status_is_there_the_moment_a_line_is_sent(room):
    assert room.state.live(80, 20) == []

    submit(room.state, "slow")

    assert any("Ctrl-C stops" in line for _, line in room.state.live(80, 20))
    room.state.interrupt()
    await room.settled()


async def test_a_prompt_that_only_asks_sends_nothing(room):
    room.state.listens = False

    await room.type("fix it")

    assert room.talk.asked == []
