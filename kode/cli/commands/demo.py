"""`kode demo`: a tour that needs no key. A script plays the model; everything else is real: a
scratch project, the tools, the permission question, two sessions, memory, undo.

At a terminal the person answers the question and says when to continue; otherwise the demo plays by
itself. It uses a temporary folder and home, which are deleted afterwards.
"""

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kode import paths
from kode.cli.commands.task import interrupt_by_signals
from kode.cli.parser import Parser
from kode.cli.prompt.repl import run_in_prompt
from kode.cli.prompt.slash import render_diffs
from kode.cli.prompt.state import PromptState
from kode.cli.screen.question import make_ask
from kode.cli.screen.render import Renderer
from kode.cli.screen.screen import Screen, open_screen
from kode.config.load import load_config
from kode.errors import EXIT_INTERRUPTED, EXIT_OK, KodeError
from kode.values import dataclass

if TYPE_CHECKING:
    from kode.conversation import Conversation
    from kode.permissions.question import Answer, Question

TASK = "python3 test_dates.py fails. Find out why and fix it."
SCRIPT = "demo.json"
PROJECT = {
    "dates.py": (
        'def is_leap(year):\n    """Whether a year has 366 days."""\n    return year % 4 == 0\n'
    ),
    "test_dates.py": (
        "from dates import is_leap\n\n"
        "assert is_leap(2024)\n"
        "assert not is_leap(1900), 'centuries are not leap years ...'\n"
        "assert is_leap(2000), '... but every fourth is'\n"
        "print('all good')\n"
    ),
    "AGENTS.md": "Run the tests with `python3 test_dates.py`.\n",
}


def main(argv: Sequence[str]) -> int:
    """Plays the demo; Ctrl-C, or q at a pause, ends it early. Returns the exit code."""
    parser = Parser("kode demo", "A two-minute tour on a scratch project, no key needed.")
    parser.parse(argv)
    screen, code = open_screen(), EXIT_OK
    is_watched = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    interrupt_by_signals()
    try:
        with make_scratch_project() as project:
            asyncio.run(_Tour(screen, project, is_watched).play())
    except (KeyboardInterrupt, asyncio.CancelledError):
        screen.print("\nThe demo ended early.")
        code = EXIT_INTERRUPTED
    screen.print("\nThat's it. The scratch project has been deleted.")
    screen.print("Next: set up a model with `kode init`, then run `kode` in your project.")
    return code


@contextlib.contextmanager
def make_scratch_project() -> Iterator[Path]:
    """Creates a project, and a home that the rest of this process uses; deletes both at the end."""
    prefix = "kode-demo-"
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as name:
        folder = Path(paths.real_path(name))
        project = folder / "leap-years"
        project.mkdir()
        for file, text in PROJECT.items():
            (project / file).write_text(text, encoding="utf-8")
        (folder / SCRIPT).write_bytes(Path(__file__).with_name(SCRIPT).read_bytes())
        os.environ["KODE_HOME"] = str(folder / "home")
        if shutil.which("python3") is None:  # else use the Python that runs this
            path = (os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath))
            os.environ["PATH"] = os.pathsep.join(path)
        yield project


@dataclass
class _Tour:
    screen: Screen
    project: Path
    takes_part: bool  # whether a person answers and says when to go on

    async def play(self) -> None:
        """Plays the five stops in order. Raises: CancelledError if a person leaves."""
        self.screen.print(
            "A two-minute tour: a fix with real tools, memory, resuming, undo. "
            "The model is a script; everything else is real."
        )
        await self.say(f"1 of 5 · A scratch project with a failing test ({self.project}).")
        async with self.open(None) as conversation:
            await self.ask(conversation, TASK)
            await self.say("2 of 5 · What changed, as `/diff` shows it:")
            self.screen.print_painted(render_diffs(self.screen, conversation.diffs()))
            await self.say("3 of 5 · Tell it something to remember:")
            wish = "Please remember: I want the edge cases named in every summary."
            await self.ask(conversation, wish)
        session_id = conversation.session.id
        await self.say("4 of 5 · After quitting: what kode remembers (`kode memory show`).")
        async with self.open(session_id) as conversation:
            self.screen.print((await conversation.memory_command(["show"])).text)
            self.screen.print(f"\nResuming with `kode -r {session_id}`:")
            await self.ask(conversation, "What do you know about how I like summaries?")
            await self.say("5 of 5 · The edit can be undone, with `/undo`:")
            self.screen.print(await conversation.undo())
        text = (self.project / "dates.py").read_text(encoding="utf-8")
        self.screen.print("\n$ cat dates.py\n" + text.rstrip("\n"))

    async def say(self, text: str) -> None:
        """Prints what comes next, and waits for Enter. Raises: CancelledError for other input."""
        self.screen.print(f"\n── {text}")
        if self.takes_part:
            line = await self.screen.read_answer("   Press Enter to continue, q to quit: ")
            if line is None or line.strip():
                raise asyncio.CancelledError

    async def ask(self, conversation: "Conversation", text: str) -> None:
        """Runs a turn. Raises: CancelledError if it was stopped; KodeError if it failed."""
        self.screen.print_prompt(text)
        state = PromptState(self.screen, self.renderer, {}, opened=conversation, listens=False)
        ended = await run_in_prompt(state, text)
        if ended.status != "success":
            error = KodeError(f"The demo: {ended.error}")
            raise asyncio.CancelledError if ended.status == "interrupted" else error

    @contextlib.asynccontextmanager
    async def open(self, session_id: str | None) -> AsyncIterator["Conversation"]:
        """Opens a new session, or the one named."""
        from kode.conversation import Settings, open_conversation

        flags = {
            "provider": "scripted",
            "script": str(self.project.parent / SCRIPT),
            "permissions.mode": "ask" if self.takes_part else "auto-edit",
            "permissions.allow": ["shell(python3 test_dates.py)"],
        }
        loaded = load_config(paths.kode_home(), self.project, environ={}, flags=flags)
        self.renderer = renderer = Renderer(self.screen)
        person = make_ask(self.screen, say=renderer.show_outcome)

        async def answer(question: "Question") -> "Answer":
            while (reply := await person(question)).choice == "no":
                words = "A real model would try something else; the script can only ask again."
                self.screen.print(f"   You refused, so nothing was changed. {words}", "dim")
            return reply

        ask = answer if self.takes_part else None
        settings = Settings(loaded, emit=renderer.emit, ask=ask)
        conversation = await open_conversation(settings, cwd=self.project, session_id=session_id)
        try:
            yield conversation
        finally:
            await conversation.close()
