"""`kode demo`: a tour that needs no key. A script plays the model; everything else is real: a
scratch project, the tools, the gate and its question, two sessions, memory, Ctrl-C, undo.

At a terminal the person answers, stops and undoes; without one the demo plays by itself. It uses a
temporary folder and home, which are deleted afterwards. The scripts are `demo_first.json` and
`demo_second.json` beside this module.
"""

import asyncio
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kode import paths
from kode.cli.parser import Parser
from kode.cli.prompt.changes import render_diffs
from kode.cli.prompt.repl import asking
from kode.cli.prompt.state import PromptState
from kode.cli.prompt.submit import start
from kode.cli.screen.menu import Choice, Menu
from kode.cli.screen.question import make_ask
from kode.cli.screen.render import Renderer
from kode.cli.screen.screen import Screen, open_screen
from kode.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK
from kode.interrupts import heeding

if TYPE_CHECKING:
    from kode.conversation import Conversation
    from kode.events import Event, TurnEnded
    from kode.permissions.gate import Answer, Question

_NEXT = "Next: set up a model with `kode init`, then run `kode` in your project."
TASK = "python3 test_dates.py fails. Find out why and fix it."
TESTS = "shell(python3 test_dates.py)"
SLOW = "shell(sleep 60)"
PLAYED_CTRL_C_S = 1.0  # without a person, after the slow command has started
SCRIPTS = ("demo_first.json", "demo_second.json")
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


class Left(Exception):
    """The person wants to leave."""


def main(argv: Sequence[str]) -> int:
    """Plays the demo; Ctrl-C, or q at a pause, ends it early. Returns the exit code."""
    parser = Parser("kode demo", "A two-minute tour on a scratch project, no key needed.")
    parser.add_argument("--fast", action="store_true", help="play by itself, without pauses")
    arguments = parser.parse(argv)
    screen = open_screen()
    watched = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    try:
        with scratch() as project:
            state = PromptState(screen, Renderer(screen), {}, folder=project, listens=False)
            tour = _Tour(screen, project, takes_part=watched and not arguments.fast, state=state)
            code = asyncio.run(_until_left(state, tour.play()))
    except (KeyboardInterrupt, asyncio.CancelledError, Left):
        screen.print("\nThe demo ended early.")
        code = EXIT_INTERRUPTED
    screen.print("\nThat's it. The scratch project has been deleted.")
    screen.print(_NEXT)
    return code


@contextmanager
def scratch() -> Iterator[Path]:
    """Creates a project and a home, and deletes them at the end."""
    folder = Path(paths.real_path(tempfile.mkdtemp(prefix="kode-demo-")))
    saved = {name: os.environ.get(name) for name in ("KODE_HOME", "PATH")}
    try:
        project = folder / "leap-years"
        project.mkdir()
        for name, text in PROJECT.items():
            (project / name).write_text(text, encoding="utf-8")
        for name in SCRIPTS:
            script = resources.files("kode.cli.commands").joinpath(name)
            (folder / name).write_bytes(script.read_bytes())
        os.environ["KODE_HOME"] = str(folder / "home")
        if shutil.which("python3") is None:  # else use the Python that runs this
            here = os.path.dirname(sys.executable)
            os.environ["PATH"] = os.pathsep.join([here, saved["PATH"] or os.defpath])
        yield project
    finally:
        for name, value in saved.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        shutil.rmtree(folder, ignore_errors=True)


async def _until_left(state: PromptState, playing: Coroutine[Any, Any, int]) -> int:
    """Deletes the scratch project also on a closed terminal or a signal."""
    task = asyncio.ensure_future(playing)
    with heeding(dict.fromkeys((signal.SIGTERM, signal.SIGHUP), task.cancel)):
        async with asking(state):
            return await task


def _import_the_rest() -> None:
    """Imports what a session needs. It takes seconds: call it in a thread, while a person reads."""
    from kode.config import resolve_provider as resolve_provider
    from kode.conversation import open_conversation as open_conversation


@dataclass
class _Tour:
    """One tour: what is shown, and the person's part in it."""

    screen: Screen
    project: Path
    takes_part: bool
    """Whether a person answers, stops and undoes; otherwise the tour does."""
    state: PromptState
    closing: bool = False  # a session ends: memory's events are not part of the tour
    refused: bool = False

    async def play(self) -> int:
        """Plays the six stops in order; returns the exit code."""
        self.screen.print(
            "A two-minute tour: a fix with real tools, memory, Ctrl-C, resuming, undo. "
            "The model is a script; everything else is real."
        )
        threading.Thread(target=_import_the_rest, daemon=True).start()
        await self.say(f"1 of 6 · A scratch project with a failing test ({self.project}).")
        if self.takes_part:
            self.screen.print("   kode asks before it edits: answer the question.", "dim")
        await self.prepare()
        try:
            if not await self.fix():
                return EXIT_FAILED
            await self.say("2 of 6 · What changed, as `/diff` shows it:")
            self.screen.print_painted(render_diffs(self.screen, self.conversation.past.diffs()))
            await self.say("3 of 6 · Tell it something to remember:")
            await self.ask("Please remember: I want the edge cases named in every summary.")
            await self.stop()
        finally:
            session_id = await self.close()
        await self.say("5 of 6 · After quitting: what kode remembers (`kode memory show`).")
        await self.open(session_id)
        try:
            self.screen.print((await self.conversation.memory_command(["show"])).text)
            self.screen.print(f"\nResuming with `kode -r {session_id}`:")
            await self.ask("What do you know about how I like summaries?")
            await self.undo()
        finally:
            await self.close()
        return EXIT_OK

    @property
    def conversation(self) -> "Conversation":
        return self.state.conversation

    async def say(self, text: str) -> None:
        """Prints what comes next, and waits until a person wants it. Raises: Left."""
        self.screen.print(f"\n── {text}")
        if self.takes_part:
            choices = [Choice("next", "next (Enter)", "n"), Choice("quit", "quit", "q")]
            if await self.screen.read_answer("tour: ", Menu(choices)) in (None, "quit"):
                raise Left

    async def ask(self, text: str) -> "TurnEnded":
        """Runs a turn. Raises: Left if Ctrl-C stopped it without a refusal."""
        await self.turn(text)
        ended = self.state.screen.ended
        if ended is None or (ended.status == "interrupted" and not self.refused):
            raise Left
        return ended

    async def turn(self, text: str) -> None:
        """A turn as the prompt runs it. Raises: Left, if the person has left."""
        if self.screen.editor is None:  # where a line would have been typed
            self.screen.print_prompt(text)
        self.state.screen.ended = None
        start(self.state, text)
        with heeding({signal.SIGINT: self.state.interrupt}):
            await self.state.idle()
        if self.state.leaving:
            raise Left

    async def fix(self) -> bool:
        """The task, with the question about the edit; returns whether it was done."""
        ended = await self.ask(TASK)
        while self.refused:
            self.refused = False
            self.screen.print(
                "   You refused, so nothing was changed. A real model would try something else; "
                "the script can only ask again.",
                "dim",
            )
            ended = await self.ask("Make the edit after all.")
        return ended.status == "success"

    async def stop(self) -> None:
        """A slow command, and Ctrl-C."""
        who = "press Ctrl-C to stop it." if self.takes_part else "Ctrl-C stops it."
        self.screen.print(f"\n── 4 of 6 · A command that takes a minute: {who}")
        if not self.takes_part:
            asyncio.get_running_loop().call_later(PLAYED_CTRL_C_S, self.state.interrupt)
        await self.turn("Wait for the server.")

    async def undo(self) -> None:
        """`/undo`, typed by the person where there is one. Raises: Left."""
        self.screen.print("\n── 6 of 6 · The edit can be undone: type /undo")
        typed = "" if self.takes_part else "/undo"
        while typed != "/undo":
            line = await self.screen.read_answer("> ")
            if line is None or line.strip() in ("q", "quit", "exit", "/quit"):
                raise Left
            typed = line.strip() or "/undo"
            if typed != "/undo":
                self.screen.print("   Here only /undo works, and q to quit.", "dim")
        self.screen.print(await self.conversation.past.undo())
        text = (self.project / "dates.py").read_text(encoding="utf-8")
        self.screen.print("\n$ cat dates.py\n" + text.rstrip("\n"))

    async def prepare(self) -> None:
        """Opens the first session as a job, which the screen shows. Raises: Left."""
        self.state.jobs.start(self.open, None, then=lambda _: self.screen.redraw(), what="Opening")
        await self.state.idle()
        if self.state.opened is None:
            raise Left

    async def open(self, session_id: str | None) -> None:
        """Opens a new session, or the one named, with its script."""
        await asyncio.to_thread(_import_the_rest)
        from kode.config import load_config
        from kode.conversation import open_conversation

        part = "second" if session_id else "first"
        flags = {
            "provider": "scripted",
            "script": str(self.project.parent / f"demo_{part}.json"),
            "permissions.mode": "ask" if self.takes_part else "auto-edit",
            "permissions.allow": [TESTS, SLOW],
        }
        loaded = load_config(paths.home(), self.project, environ={}, flags=flags)
        renderer = self.state.renderer
        show, person = renderer.emit, make_ask(self.screen, say=renderer.show_outcome)

        def emit(event: "Event") -> None:
            if not self.closing:
                show(event)

        async def answer(question: "Question") -> "Answer":
            given = await person(question)
            if given.choice == "no":
                # The script would continue as if it had been allowed.
                self.refused = True
                self.state.interrupt()
            return given

        self.closing = False
        self.state.opened = await open_conversation(
            loaded,
            cwd=self.project,
            emit=emit,
            ask=answer if self.takes_part else None,
            session_id=session_id,
        )
        self.state.forget_status()

    async def close(self) -> str | None:
        """Ends the session; returns its id."""
        self.closing = True
        await self.conversation.close()
        return self.conversation.session.id
