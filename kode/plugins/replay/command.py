"""`kode replay`: replays a session or a cassette offline."""

import asyncio
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kode.plugin import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_OK,
    Parser,
    SessionError,
    cancelled_by_signals,
    paths,
    print_either,
    working_directory,
)

if TYPE_CHECKING:
    import argparse

    from kode.plugins.replay.recording import Recording

CONTINUE = (
    "To go on from a step: `kode session fork ID --at ENTRY`, then `kode continue --model M`."
)
REPLACED = {
    **dict.fromkeys(("--from", "--times", "--model", "--verify", "--compare"), CONTINUE),
    **dict.fromkeys(("--append-system", "--without-memory", "--max-budget-usd"), CONTINUE),
    "--network": "A replay takes the recorded results: no call runs.",
}


def main(argv: Sequence[str]) -> int:
    """Runs `kode replay` and returns its exit code: 0 if identical, 1 if different.

    Raises: UserError, SessionError, StorageError.
    """
    parser = Parser("kode replay", "Replay a session from its record, and compare its requests.")
    parser.replaced = REPLACED
    add = parser.add_argument
    add("session", metavar="SESSION", help="a session id, any unique prefix, or a cassette")
    add("--cwd", metavar="DIR", help="another folder with the project's files")
    add("--json", action="store_true", help="one JSON object")
    return asyncio.run(_until_interrupted(parser.parse(argv)))


async def _until_interrupted(arguments: "argparse.Namespace") -> int:
    task = asyncio.ensure_future(_replay(arguments))
    try:
        with cancelled_by_signals(task):
            return await task
    except asyncio.CancelledError:
        print("kode: interrupted; nothing is left of the replay.", file=sys.stderr)
        return EXIT_INTERRUPTED


async def _replay(arguments: "argparse.Namespace") -> int:
    from kode.plugin import load_config
    from kode.plugins.replay import report
    from kode.plugins.replay.play import play

    recording, cwd = _recording(arguments)
    if not cwd.is_dir():
        raise SessionError(
            f"{cwd}, where session {recording.header.id} worked, no longer exists. "
            "Name a folder with the same files: --cwd DIR."
        )
    config = load_config(paths.home(), cwd, environ=os.environ, flags={}).config
    with tempfile.TemporaryDirectory(prefix="kode-replay-") as home:
        replay = await play(recording, config, home=Path(home), cwd=cwd)
    whole, lines = report.as_json(recording, replay), report.lines(recording, replay)
    print_either(whole, lines, as_json=arguments.json)
    return EXIT_OK if replay.same else EXIT_FAILED


def _recording(arguments: "argparse.Namespace") -> "tuple[Recording, Path]":
    """The named session or cassette, and the folder to replay it in."""
    from kode.plugin import find_session
    from kode.plugins.replay import cassette, recording

    if Path(arguments.session).is_file():
        made = cassette.read_cassette(Path(arguments.session))
        return made, paths.project_root(working_directory(arguments)) / made.inside_project()
    made = recording.load(paths.home(), find_session(paths.home(), arguments.session))
    return made, working_directory(arguments) if arguments.cwd else Path(made.header.cwd)
