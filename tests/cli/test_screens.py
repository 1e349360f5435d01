"""The screens that people see most, each whole in a file of `screens/`.

After a change that is meant: `.venv/bin/pytest tests/cli/test_screens.py -n 0 --fix`, then read the
difference in `git diff`.
"""

import asyncio
import inspect
import json
import re
import sys
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
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
from kode.cli.screen.question import make_ask
from kode.cli.screen.render import ProgressRenderer, Renderer
from kode.errors import Setting
from kode.events import TurnStarted
from kode.plugins.detached import command as background
from kode.plugins.detached.places import Background, SessionState, Spec
from kode.providers.errors import Endpoint, status_error
from tests.cli.commands.test_session_command import TODAY, summary
from tests.cli.fake_conversation import DIFF, FakeConversation
from tests.cli.screen.test_question import question
from tests.cli.some_events import ALL_EVENTS, ended
from tests.cli.terminals import Person, make_screen
from tests.e2e.terminal import Terminal
from tests.scripted_server import ScriptedServer

ROOT = Path(__file__).parents[2]
ANSWER = (Path(__file__).parent / "data/answer.md").read_text()
CURL = "curl -sS https://example.com/data.json"


def readable(text: str) -> str:
    """Without the spaces that nobody sees at the ends of lines."""
    return "\n".join(line.rstrip() for line in text.split("\n")).strip("\n") + "\n"


async def typed(
    tmp_path: Path, line: str, width: int = 80, *answers: str | None, **facts: object
) -> str:
    """What a line at the prompt prints, over a conversation that plays written turns."""
    person = Person(*answers)
    screen = person.screen = make_screen(width, editor=person if answers else None)
    renderer = Renderer(screen, clock=lambda: 100.0)
    talk = FakeConversation(tmp_path, tmp_path, emit=renderer.emit, pause_s=0, **facts)
    state = PromptState(screen, renderer, COMMANDS, opened=talk)
    submit(state, line)
    while state.is_busy or state.beside or state.queued:
        await asyncio.sleep(0.001)
    screen.flush()
    return person.shown or screen.stream.getvalue()


def shown(*events, kind=Renderer, **facts: object) -> str:
    screen = make_screen()
    renderer = kind(screen, clock=lambda: 100.0, **facts)
    for event in events:
        renderer.emit(event)
    return screen.stream.getvalue()


async def asked(changes: dict[str, object], width: int = 80) -> str:
    """A question with its answers, and the line that remains of it."""
    person = Person("y")
    person.screen = make_screen(width, editor=person)
    person.width = width - 1
    await make_ask(person.screen)(question(**changes))
    person.screen.flush()
    return person.shown


def write_file(path: str, reason: str = "") -> dict[str, object]:
    diff = f"--- a{path}\n+++ b{path}\n@@ -0,0 +1,2 @@\n+one\n+two\n"
    what = {"tool": "write_file", "title": "Edit this file?", "subject": path, "reason": reason}
    return {**what, "preview": diff, "diff": diff, "rules": (f"edit({path})",)}


DELETE = {"dangers": ("Deletes the folder build.",)}
CHANGE = {"preview": DIFF, "diff": DIFF, "passes_in": "auto-edit"}
EDIT = {**write_file("src/parser/calc.py"), **CHANGE}
FETCH = {
    "subject": CURL,
    "preview": CURL,
    "reason": f"`{CURL}` talks to another machine.",
    "rules": ("shell(curl:*)",),
}
SERVER = {
    "tool": "trust",
    "subject": "MCP server docs",
    "title": "Use this repository's extensions?",
    "preview": "MCP server docs (new, from .mcp.json)\nnpx -y @acme/docs-server@1.2.0",
    "reason": "Extensions can run programs and instruct the model.",
    "rules": (),
    "narrow": (),
    "until_changed": True,
    "takes_words": False,
}


def grow() -> str:
    """The unfinished end of an answer, every 150 characters."""
    splitter, grown = BlockSplitter(), []
    for at in range(0, len(ANSWER), 150):
        splitter.feed(ANSWER[at : at + 150])
        grown.append(render(splitter.preview()))
    return "\n····\n".join(grown)


def render(text: str, width: int = 80) -> str:
    return make_screen(width).render_rich(TerminalMarkdown(text))


def refuse_key() -> str:
    endpoint = Endpoint(
        base_url="https://api.openai.com/v1",
        model="gpt-5",
        used={"api_key": Setting("api_key", "OPENAI_API_KEY")},
    )
    error = status_error(401, {"error": {"message": "Incorrect API key provided."}}, {}, endpoint)
    return shown(TurnStarted(text="x"), ended("error", str(error)))


def end(status: str) -> str:
    return shown(TurnStarted(text="x"), ended(status, files=("/a", "/b")))


def resume(tmp_path: Path) -> str:
    screen, asked = make_screen(), ["Fix add."]
    talk = FakeConversation(tmp_path, tmp_path, turns=1, asked=asked, cut_short=True)
    talk.session.turns = 1
    PromptState(screen, Renderer(screen), COMMANDS, opened=talk).show_resumed()
    return screen.stream.getvalue()


def list_sessions() -> str:
    older = datetime(2026, 3, 4, 17, 0).astimezone().isoformat()
    facts = {"id": "20260304-170000-9be1d0", "turns": 0, "cost_usd": None, "task": "try"}
    rows = [summary(), summary(updated_at=older, **facts)]
    tables = ["\n".join(draw_table(rows, width, today=TODAY)) for width in (120, 80, 40)]
    return "\n\n".join(tables)


SCREENS: dict[str, Callable[[], Awaitable[str] | str] | Callable[[Path], Awaitable[str] | str]] = {
    **{f"turn-{width}": partial(typed, line="fix it", width=width) for width in (80, 40)},
    **{f"help-{width}": partial(typed, line="/help", width=width) for width in (80, 40)},
    **{name: partial(typed, line=f"/{name}") for name in ("context", "diff", "permissions")},
    "plan": lambda tmp_path: typed(tmp_path, "plan", 80, "no", fresh_plan=True),
    "model": lambda tmp_path: typed(tmp_path, "/model", 80, None),
    "effort": lambda tmp_path: typed(tmp_path, "/effort", 80, None),
    "resume": resume,
    "question-command-80": lambda: asked(DELETE),
    "question-command-40": lambda: asked(DELETE, 40),
    "question-edit-80": lambda: asked(EDIT),
    "question-edit-40": lambda: asked(EDIT, 40),
    "question-new-file": lambda: asked(write_file("notes.txt")),
    "question-outside": lambda: asked(write_file("/x/a.py", "/x/a.py is outside the project.")),
    "question-network": lambda: asked(FETCH),
    "question-server": lambda: asked(SERVER),
    "answer-80": lambda: render(ANSWER),
    "answer-40": lambda: render(ANSWER, 40),
    "answer-growing": grow,
    **{f"end-{it}": partial(end, it) for it in ("success", "interrupted", "timeout")},
    "wrong-key": refuse_key,
    "sessions": list_sessions,
    "run-progress": lambda: shown(*ALL_EVENTS, kind=ProgressRenderer, unfolded=True),
}


@pytest.mark.parametrize("name", SCREENS)
async def test_a_screen_is_as_before(tmp_path: Path, name: str) -> None:
    draw = SCREENS[name]
    needs_folder = "tmp_path" in inspect.signature(draw).parameters
    text = draw(tmp_path) if needs_folder else draw()

    text = text if isinstance(text, str) else await text
    assert readable(text) == external_file(f"screens/{name}.txt")


def start_python(folder: Path, *arguments: str, height: int) -> Terminal:
    env = {"KODE_HOME": str(folder.parent / "home"), "PYTHONPATH": str(ROOT)}
    return Terminal(sys.executable, list(arguments), cwd=folder, env=env, height=height)


def test_the_prompt_a_question_and_a_menu_are_as_before(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    with start_python(folder, "-m", "tests.cli.fake_conversation", height=20) as terminal:

        def drawn(last: str) -> str:
            """The screen once a text is on it, and the status line again below."""
            while not (last in terminal.text and terminal.text.endswith("$0.0123")):
                assert terminal.read()
            return terminal.text

        text = drawn("kode in")
        terminal.type("ask", "enter")
        text += "\n\n" + drawn("no, with instructions")
        terminal.type("\x1b")
        drawn("The answer was no")
        terminal.type("/re")
        terminal.until("name this session")

    assert readable(text) == external_file("screens/prompt.txt")
    menu = terminal.text[terminal.text.rindex("> /re") :]
    assert readable(menu) == external_file("screens/menu.txt")


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


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, and a home beside it."""
    monkeypatch.setenv("KODE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "80")
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("words", ["--help", "run --help"])
def test_help_is_as_before(words: str, project: Path, capsys) -> None:
    assert main(words.split()) == 0

    name = f"kode {words}".replace(" ", "-").replace("--", "-")
    assert readable(capsys.readouterr().out) == external_file(f"screens/{name}.txt")


def test_the_set_up_is_as_before(project: Path) -> None:
    run = "from kode.cli.commands.init import *; init = sys.modules[first_run.__module__]; "
    run += "init.list_local_addresses = tuple; first_run(open_screen())"
    with ScriptedServer() as server, start_python(project, "-c", run, height=36) as terminal:
        text = terminal.until("Esc cancels") + "\n\n"
        terminal.type("up", "up", "enter")
        terminal.until("Address")
        terminal.type(server.openai_url, "enter")
        text += terminal.until("config show")

    text = text.replace(str(project.parent), "~").replace(
        server.openai_url, "http://127.0.0.1:8080/v1"
    )
    assert readable(text) == external_file("screens/set-up.txt")


def test_the_list_of_background_sessions_is_as_before(project: Path, capsys, monkeypatch) -> None:
    asks = {"title": "Edit this file?", "subject": "calc.py"}
    rows = [
        ("3fa9c2", "Fix the parser.", "alive", {"doing": "asks", "question": asks}),
        ("9be1d0", "Write docs.", "alive", {"doing": "works"}),
        ("77c0aa", "Sort imports.", "ended", {"status": "success", "cost_usd": 0.12}),
        ("5d21e4", "Find the leak.", "killed", {}),
    ]
    sessions = [
        Background(
            folder=project,
            spec=Spec(id=f"20260305-091500-{id}", words=(), title=task, task=task, cwd="/", at=0),
            state=SessionState(since=1_000.0, **state),
            life=life,
        )
        for id, task, life, state in rows
    ]
    monkeypatch.setattr(background.places, "list_background", lambda home, faults: sessions)
    monkeypatch.setattr(background.time, "time", lambda: 1_125.0)

    assert background.ps([]) == 0
    assert readable(capsys.readouterr().out) == external_file("screens/background.txt")


def call(tool: str, **arguments: str) -> dict[str, object]:
    return {"name": tool, "arguments": arguments}


BUILD = call("shell", command="echo built; exit 2")
WRITE = call("write_file", path="a.txt", content="x")
RUNS = {
    "run": (
        ["build it", "--allow", "shell(echo:*)"],
        [{"text": "Let me see.", "calls": [BUILD, WRITE]}, {"text": "The build **fails**.\n"}],
    ),
    "goal": (
        ["--goal", "make a.txt", "--verify", "cat a.txt", "--permission-mode", "auto-edit"],
        [{"text": "It is there."}, {"calls": [WRITE]}, {"text": "Now it is there.\n"}],
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_the_output_of_a_run_is_as_before(name: str, project: Path, capsys) -> None:
    words, script = RUNS[name]
    home = project.parent / "home"
    home.mkdir()
    (home / "script.json").write_text(json.dumps(script))
    config = {"provider": "scripted", "script": str(home / "script.json")}
    (home / "config.json").write_text(json.dumps(config))

    status = main(["run", *words, "--no-memory"])
    captured = capsys.readouterr()
    text = f"{captured.err}\n{captured.out}\nexit status {status}\n"
    text = re.sub(r"\d{8}-\d{6}-[0-9a-f]{6}", "20260305-091500-3fa9c2", text)
    text = re.sub(r" · \d+\.\ds\b", "", text)  # shown of what takes long
    text = re.sub(r", \d+ s\b", ", 1 s", text)

    assert readable(text) == external_file(f"screens/{name}.txt")
