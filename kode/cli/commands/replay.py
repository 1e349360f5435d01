"""`kode replay`: a session played again, offline, in a copy of its project."""

import argparse
import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from kode import paths
from kode.cli.commands.interrupts import cancelled_by_signals
from kode.cli.flags import working_directory
from kode.cli.parser import Parser
from kode.cli.screen.lines import clean
from kode.cli.screen.output import print_line, to_json
from kode.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK


def main(argv: Sequence[str]) -> int:
    """Runs `kode replay` and returns its exit code: 0 identical, 1 with a difference.

    Raises: SessionError, ConfigError, StorageError.
    """
    parser = Parser("kode replay", "A session again, in a copy of its project.")
    add = parser.add_argument
    add("session", metavar="SESSION", help="any unique beginning of an id")
    add("--append-system", metavar="TEXT", default="", help="add to the system prompt")
    add("--without-memory", action="store_true", help="as if memory had been empty")
    add("--network", action="store_true", help="let calls go to the network")
    add("--cwd", metavar="DIR", help="a folder with the files of the project")
    add("--json", action="store_true", help="one JSON object")
    return asyncio.run(_replay(parser.parse(argv)))


async def _replay(arguments: argparse.Namespace) -> int:
    from kode.config import load_config
    from kode.replay import report
    from kode.replay.play import Changes, play
    from kode.replay.recording import load
    from kode.replay.scratch import scratch
    from kode.session.index import find

    home = paths.home()
    recording = load(home, find(home, arguments.session))
    cwd = working_directory(arguments) if arguments.cwd else Path(recording.header.cwd)
    changes = Changes(
        append_system=arguments.append_system,
        without_memory=arguments.without_memory,
        network=arguments.network,
    )
    with scratch(recording, cwd) as copy:
        config = load_config(home, copy.original, environ=os.environ, flags={}).config
        playing = asyncio.ensure_future(play(recording, config, copy, changes))
        try:
            with cancelled_by_signals(playing):
                replay = await playing
        except asyncio.CancelledError:
            print_line("Interrupted; nothing is left of the replay.")
            return EXIT_INTERRUPTED
    if arguments.json:
        print_line(to_json(report.as_json(recording, replay)))
    else:
        for line in report.lines(recording, replay):
            print_line(clean(line))
    return EXIT_OK if replay.same else EXIT_FAILED
