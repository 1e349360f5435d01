"""The screens that people see most, each whole in a file of `screens/`.

After a change that is meant: `.venv/bin/pytest tests/cli/test_screens.py -n 0 --fix`, then read the
difference in `git diff`.
"""

import asyncio
import json
import re
import sys
from datetime import datetime
from pathlib import Path

import pytest
from inline_snapshot import external_file

from kode.cli.commands import doctor
from kode.cli.commands.doctor import Finding
from kode.cli.commands.session import draw_table
from kode.cli.main import main
from kode.cli.prompt.slash import COMMANDS
from kode.cli.prompt.state import PromptState
from kode.cli.prompt.submit import submit
from kode.cli.screen.markdown import BlockSplitter, TerminalMarkdown
from kode.cli.screen.menu import Choice, Menu
from kode.cli.screen.question import make_ask
from kode.cli.screen.render import ProgressRenderer, Renderer
from kode.errors import Setting
from kode.events import TurnStarted
from kode.providers.errors import Endpoint, from_status
from tests.cli.commands.test_session_command import TODAY, summary
from tests.cli.fake_conversation import DIFF, FakeConversation
from tests.cli.screen.test_question import question
from tests.cli.some_events import ALL_EVENTS, ended
from tests.cli.terminals import Person, make_screen
from tests.e2e.terminal import Terminal

ROOT = Path(__file__).parents[2]
WIDTHS = (80, 40)


def readable(text: str) -> str:
    """Without the spaces that nobody sees at the ends of lines."""
    return "\n".join(line.rstrip() for line in text.split("\n")).strip("\n") + "\n"


async def typed(tmp_path: Path, *lines: str, width: int = 80) -> str:
    """What lines at the prompt print, over a conversation that plays written turns."""
    screen = make_screen(width)
    renderer = Renderer(screen, clock=lambda: 100.0)
    talk = FakeConversation(tmp_path, tmp_path, emit=renderer.emit, pause_s=0)
    state = PromptState(screen, renderer, COMMANDS, opened=talk)
    for line in lines:
        submit(state, line)
    while state.is_busy or state.beside or state.queued:
        await asyncio.sleep(0.001)
    screen.flush()
    return screen.stream.getvalue()


def shown(*events, width: int = 80) -> str:
    screen = make_screen(width)
    renderer = Renderer(screen, clock=lambda: 100.0)
    for event in events:
        renderer.emit(event)
    return screen.stream.getvalue()


async def asked(width: int = 80, **changes: object) -> str:
    """A question with its answers, and the line that remains of it."""
    person = Person("y")
    person.screen = make_screen(width, editor=person)
    person.width = width - 1
    await make_ask(person.screen)(question(**changes))
    person.screen.flush()
    return person.shown


def test_the_first_prompt_and_a_question_are_as_before(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    with Terminal(
        sys.executable,
        ["-m", "tests.cli.fake_conversation"],
        cwd=folder,
        env={"KODE_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)},
        height=20,
    ) as terminal:

        def drawn(last: str) -> str:
            """The screen once a text is on it, and the status line again below."""
            while not (last in terminal.text and terminal.text.endswith("$0.0123")):
                assert terminal.read()
            return terminal.text

        text = drawn("kode in")
        terminal.type("ask", "enter")
        text += "\n\n" + drawn("no, with instructions")

    assert readable(text) == external_file("screens/prompt.txt")


@pytest.mark.parametrize("width", WIDTHS)
async def test_the_screen_of_a_turn_is_as_before(tmp_path: Path, width: int) -> None:
    text = await typed(tmp_path, "fix it", width=width)

    assert readable(text) == external_file(f"screens/turn-{width}.txt")


@pytest.mark.parametrize("width", WIDTHS)
async def test_the_question_about_a_command_is_as_before(width: int) -> None:
    text = await asked(width, dangers=("Deletes the folder build.",))

    assert readable(text) == external_file(f"screens/question-command-{width}.txt")


@pytest.mark.parametrize("width", WIDTHS)
async def test_the_question_about_an_edit_is_as_before(width: int) -> None:
    text = await asked(
        width,
        tool="edit_file",
        subject="src/parser/calc.py",
        title="Edit a file",
        preview=DIFF,
        diff=DIFF,
        reason="mode ask asks about each edit",
        rules=("edit(src/parser/calc.py)",),
    )

    assert readable(text) == external_file(f"screens/question-edit-{width}.txt")


async def test_the_question_about_a_new_file_is_as_before() -> None:
    diff = "--- a/x/notes.txt\n+++ b/x/notes.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n"

    text = await asked(
        tool="write_file",
        subject="/x/notes.txt",
        title="Write a file",
        preview=diff,
        diff=diff,
        reason="mode ask asks about each edit",
        rules=("edit(/x/notes.txt)",),
    )

    assert readable(text) == external_file("screens/question-new-file.txt")


@pytest.mark.parametrize("width", WIDTHS)
def test_a_long_answer_is_as_before(width: int) -> None:
    answer = (Path(__file__).parent / "data/answer.md").read_text()
    text = make_screen(width).render_rich(TerminalMarkdown(answer))

    assert readable(text) == external_file(f"screens/answer-{width}.txt")


def test_the_growing_end_of_an_answer_is_as_before() -> None:
    answer, splitter, grown = (
        (Path(__file__).parent / "data/answer.md").read_text(),
        BlockSplitter(),
        [],
    )
    for at in range(0, len(answer), 150):
        splitter.feed(answer[at : at + 150])
        grown.append(make_screen().render_rich(TerminalMarkdown(splitter.preview())))

    assert readable("\n····\n".join(grown)) == external_file("screens/answer-growing.txt")


def test_a_picker_is_as_before() -> None:
    rows = [Choice(str(n), f"yesterday 17:0{n}   task {n}") for n in range(10)]
    lines = Menu(rows, is_searchable=True).lines(make_screen().paint, "task", 80, 8)

    assert readable("\n".join(lines)) == external_file("screens/picker.txt")


@pytest.mark.parametrize("status", ["success", "interrupted", "timeout"])
def test_the_end_of_a_turn_is_as_before(status: str) -> None:
    text = shown(TurnStarted(text="x"), ended(status, files=("/a", "/b")))

    assert readable(text) == external_file(f"screens/end-{status}.txt")


def test_the_error_of_a_wrong_key_is_as_before() -> None:
    endpoint = Endpoint(
        base_url="https://api.openai.com/v1",
        model="gpt-5",
        used={"api_key": Setting("api_key", "OPENAI_API_KEY")},
    )
    error = from_status(401, {"error": {"message": "Incorrect API key provided."}}, {}, endpoint)

    text = shown(TurnStarted(text="x"), ended("error", str(error)))

    assert readable(text) == external_file("screens/wrong-key.txt")


@pytest.mark.parametrize("width", WIDTHS)
async def test_the_list_of_commands_is_as_before(tmp_path: Path, width: int) -> None:
    text = await typed(tmp_path, "/help", width=width)

    assert readable(text) == external_file(f"screens/help-{width}.txt")


@pytest.mark.parametrize("command", ["context", "diff", "permissions"])
async def test_the_screen_of_a_command_is_as_before(tmp_path: Path, command: str) -> None:
    text = await typed(tmp_path, f"/{command}")

    assert readable(text) == external_file(f"screens/{command}.txt")


def test_the_list_of_sessions_is_as_before_in_every_width() -> None:
    older = datetime(2026, 3, 4, 17, 0).astimezone().isoformat()
    rows = [
        summary(),
        summary(id="20260304-170000-9be1d0", updated_at=older, turns=0, cost_usd=None, task="try"),
    ]
    tables = ["\n".join(draw_table(rows, width, today=TODAY)) for width in (120, 80, 40)]

    assert readable("\n\n".join(tables)) == external_file("screens/sessions.txt")


def test_the_findings_of_doctor_are_as_before(monkeypatch, capsys) -> None:
    findings = (
        Finding(what="python", state="ok", detail="3.11.7"),
        Finding(what="key", state="missing", detail="no key is set", next_step="kode init"),
        Finding(what="git", state="optional", detail="not found", next_step="install git"),
    )
    monkeypatch.setattr(doctor, "examine", lambda cwd: findings)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "40")
    assert doctor.main([]) == 1

    assert readable(capsys.readouterr().out) == external_file("screens/doctor.txt")


def test_the_help_of_kode_is_as_before(monkeypatch, capsys) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["--help"]) == 0

    assert readable(capsys.readouterr().out) == external_file("screens/kode-help.txt")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, and a home beside it."""
    monkeypatch.setenv("KODE_HOME", str(tmp_path / "home"))
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_the_progress_of_a_run_is_as_before() -> None:
    screen = make_screen()
    renderer = ProgressRenderer(screen)
    for event in ALL_EVENTS:
        renderer.emit(event)

    assert readable(screen.stream.getvalue()) == external_file("screens/run-progress.txt")


def test_the_output_of_a_run_is_as_before(project: Path, capsys, tmp_path: Path) -> None:
    calls = [
        {"name": "shell", "arguments": {"command": "echo built; exit 2"}},
        {"name": "write_file", "arguments": {"path": "a.txt", "content": "x"}},
    ]
    script = [{"text": "Let me see.", "calls": calls}, {"text": "The build **fails**.\n"}]
    (tmp_path / "script.json").write_text(json.dumps(script))
    config = {"provider": "scripted", "script": str(tmp_path / "script.json")}
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.json").write_text(json.dumps(config))

    code = main(["run", "build it", "--allow", "shell(echo:*)", "--no-memory"])
    captured = capsys.readouterr()
    text = f"$ kode run 'build it'\n{captured.err}\n{captured.out}\nexit status {code}\n"
    text = re.sub(r"\d{8}-\d{6}-[0-9a-f]{6}", "20260305-091500-3fa9c2", text)
    text = re.sub(r" · \d+\.\ds\b", "", text)  # shown of what takes long

    assert readable(text) == external_file("screens/run.txt")
