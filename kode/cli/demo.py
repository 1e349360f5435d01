"""`kode demo`: the whole experience without a key. A script plays the model; everything else is
real: a scratch project, the tools, the gate, two sessions, memory, undo.

It works in a folder of its own, with a home of its own, and leaves nothing behind. The scripts are
`demo_first.json` and `demo_second.json` beside this module.
"""

import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kode.cli.main import Parser
from kode.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK

if TYPE_CHECKING:
    from kode.conversation import Conversation

SCRIPTS = Path(__file__).parent
PAUSE_S = 1.2
"""Between the parts, for a reader; none in a pipe."""

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


def main(argv: Sequence[str]) -> int:
    """Plays the demo; Ctrl-C leaves it. Returns the exit code."""
    parser = Parser("kode demo", "The whole experience without a key, on a scratch project.")
    parser.add_argument("--fast", action="store_true", help="without pauses")
    arguments = parser.parse(argv)
    pause_s = 0.0 if arguments.fast or not sys.stdout.isatty() else PAUSE_S
    with scratch() as project:
        try:
            return asyncio.run(_play(project, pause_s))
        except KeyboardInterrupt:
            print("\nLeft the demo; nothing stays behind.")
            return EXIT_INTERRUPTED


@contextmanager
def scratch() -> Iterator[Path]:
    """A project and a home that go when this ends."""
    folder = Path(tempfile.mkdtemp(prefix="kode-demo-")).resolve()
    saved = os.environ.get("KODE_HOME")
    try:
        project = folder / "leap-years"
        project.mkdir()
        for name, text in PROJECT.items():
            (project / name).write_text(text, encoding="utf-8")
        os.environ["KODE_HOME"] = str(folder / "home")
        yield project
    finally:
        if saved is None:
            os.environ.pop("KODE_HOME", None)
        else:
            os.environ["KODE_HOME"] = saved
        shutil.rmtree(folder, ignore_errors=True)


async def _play(project: Path, pause_s: float) -> int:
    def say(text: str) -> None:
        print(f"\n── {text}", flush=True)
        time.sleep(pause_s)

    say(f"A scratch project with a failing test ({project}). The model is a script, the rest real.")
    conversation = await _open(project, None)
    session_id = conversation.session.id
    try:
        if not await _ask(conversation, "python3 test_dates.py fails. Find out why and fix it."):
            return EXIT_FAILED
        say("What changed, as `/diff` shows it:")
        print(conversation.diff())
        say("Tell it something to keep:")
        await _ask(conversation, "Please remember: I want the edge cases named in every summary.")
    finally:
        await conversation.close()
    say(f"Left. Now `kode continue --id {session_id}`, a new process as far as memory knows:")
    conversation = await _open(project, session_id)
    try:
        await _ask(conversation, "What do you know about how I like summaries?")
        say("And `/undo` takes the edit back:")
        print(await conversation.undo())
    finally:
        await conversation.close()
    print(
        "\nThat was all of it; nothing stays behind. Set up a real model with `kode init`, then\n"
        "run `kode` in a project of yours."
    )
    return EXIT_OK


async def _open(project: Path, session_id: str | None) -> "Conversation":
    from kode import paths
    from kode.cli.render import ProgressRenderer
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
    renderer = ProgressRenderer()
    return await open_conversation(
        loaded, cwd=project, emit=renderer.emit, ask=None, session_id=session_id
    )


async def _ask(conversation: "Conversation", text: str) -> bool:
    print(f"\n> {text}\n", flush=True)
    ended = await conversation.turn(text)
    sys.stderr.flush()
    print(f"\n{ended.result}", flush=True)
    if ended.error:
        print(f"kode: {ended.error}", file=sys.stderr)
    return ended.status == "success"
