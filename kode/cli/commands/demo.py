"""`kode demo`: the whole experience without a key. A script plays the model; everything else is
real: a scratch project, the tools, the gate, two sessions, memory, undo.

It works in a folder of its own, with a home of its own, and leaves nothing behind. The scripts are
`demo_first.json` and `demo_second.json` beside this module.
"""

import asyncio
import os
import shutil
import signal
import sys
import tempfile
import termios
import tty
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kode.cli.parser import Parser
from kode.cli.screen.screen import open_screen
from kode.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK

if TYPE_CHECKING:
    from kode.conversation import Conversation

_NEXT = "Set up a real model with `kode init`, then run `kode` in a project of yours."
SCRIPTS = Path(__file__).parent
PROJECT = {
    "dates.py": (
        'def is_leap(year):\n    """Whether a year has 366 days."""\n    return year % 4 == 0\n'
    ),
    "test_dates.py": (
        "from dates import is_leap\n\n"
        "assert is_leap(2024)\n"
        "assert not is_leap(1900), 'centuries are no leap years ...'\n"
        "assert is_leap(2000), '... but every fourth is'\n"
        "print('all good')\n"
    ),
    "AGENTS.md": "Run the tests with `python3 test_dates.py`.\n",
}


class Left(Exception):
    """The person has seen enough."""


def main(argv: Sequence[str]) -> int:
    """Plays the demo; Ctrl-C, or q at a pause, leaves it. Returns the exit code."""
    parser = Parser("kode demo", "The whole experience without a key, on a scratch project.")
    parser.add_argument("--fast", action="store_true", help="without pauses")
    arguments = parser.parse(argv)
    paused = not arguments.fast and sys.stdin is not None
    pausing = paused and sys.stdin.isatty() and sys.stdout.isatty()
    with scratch() as project:
        try:
            return asyncio.run(_until_left(_play(project, _pause if pausing else _no_pause)))
        except (KeyboardInterrupt, asyncio.CancelledError, Left):
            open_screen().print(f"\nLeft the demo; nothing stays behind. {_NEXT}")
            return EXIT_INTERRUPTED


@contextmanager
def scratch() -> Iterator[Path]:
    """A project and a home that go when this ends."""
    folder = Path(tempfile.mkdtemp(prefix="kode-demo-")).resolve()
    saved = {name: os.environ.get(name) for name in ("KODE_HOME", "PATH")}
    try:
        project = folder / "leap-years"
        project.mkdir()
        for name, text in PROJECT.items():
            (project / name).write_text(text, encoding="utf-8")
        os.environ["KODE_HOME"] = str(folder / "home")
        if shutil.which("python3") is None:  # then the one that runs this is used
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


async def _until_left(playing: Coroutine[Any, Any, int]) -> int:
    """A closed terminal and an end that is asked for leave nothing behind either."""
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(playing)
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, task.cancel)
    return await task


async def _no_pause() -> None:
    return None


async def _pause() -> None:
    """Waits for a key. Raises: Left."""
    loop, number = asyncio.get_running_loop(), sys.stdin.fileno()
    pressed: asyncio.Future[None] = loop.create_future()

    def press() -> None:
        if not pressed.done():
            pressed.set_result(None)

    print("   [any key goes on, q leaves] ", end="", flush=True)
    before = termios.tcgetattr(number)
    tty.setcbreak(number)
    loop.add_reader(number, press)
    try:
        await pressed
        key = os.read(number, 64)
    finally:
        loop.remove_reader(number)
        termios.tcsetattr(number, termios.TCSADRAIN, before)
        print("\r\x1b[K", end="", flush=True)
    if key.lower() in (b"q", b"\x1b", b"\x04", b""):
        raise Left


async def _play(project: Path, pause: Callable[[], Awaitable[None]]) -> int:
    from kode.cli.prompt.changes import rendered

    screen = open_screen()

    async def say(text: str) -> None:
        screen.print(f"\n── {text}")
        await pause()

    screen.print(
        "A tour of two minutes: a fix with real tools, something to remember, leaving, coming "
        "back, and an undo. The model is a script; everything else is real."
    )
    await say(f"1 of 5 · A scratch project with a failing test ({project}).")
    conversation = await _open(project, None)
    session_id = conversation.session.id
    try:
        if not await _ask(conversation, "python3 test_dates.py fails. Find out why and fix it."):
            return EXIT_FAILED
        await say("2 of 5 · What changed, as `/diff` shows it:")
        screen.print_painted(rendered(screen, conversation.diffs()))
        await say("3 of 5 · Tell it something to keep:")
        await _ask(conversation, "Please remember: I want the edge cases named in every summary.")
    finally:
        await conversation.close()
    await say("4 of 5 · Left. What `kode memory show` says now, and every new session is told:")
    conversation = await _open(project, session_id)
    try:
        screen.print(await conversation.memory_command(["show"]))
        screen.print(f"\nComing back with `kode continue --id {session_id}`:")
        await _ask(conversation, "What do you know about how I like summaries?")
        await say("5 of 5 · `/undo` takes the edit back:")
        screen.print(await conversation.undo())
        screen.print("\n$ cat dates.py\n" + (project / "dates.py").read_text().rstrip("\n"))
    finally:
        await conversation.close()
    screen.print(f"\nThat was all of it; nothing stays behind. {_NEXT}")
    return EXIT_OK


async def _open(project: Path, session_id: str | None) -> "Conversation":
    from kode import paths
    from kode.cli.screen.render import Renderer
    from kode.config import load_config
    from kode.conversation import open_conversation

    part = "second" if session_id else "first"
    flags = {
        "provider": "scripted",
        "script": str(SCRIPTS / f"demo_{part}.json"),
        "permissions.mode": "auto-edit",
        "permissions.allow": ["shell(python3 test_dates.py)"],
    }
    loaded = load_config(paths.home(), project, environ={}, flags=flags)
    renderer = Renderer(open_screen())
    return await open_conversation(
        loaded, cwd=project, emit=renderer.emit, ask=None, session_id=session_id
    )


async def _ask(conversation: "Conversation", text: str) -> bool:
    open_screen().print(f"\n> {text}", "bold")
    ended = await conversation.turn(text)
    sys.stdout.flush()
    if ended.status == "interrupted":
        raise Left
    return ended.status == "success"
