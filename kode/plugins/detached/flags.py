"""The command line of `kode start`: that of `kode run`, whatever plug-ins add to it."""

import argparse
import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from kode.plugin import Parser, Screen, Text, config_flags, load_config, open_screen, paths
from kode.plugins.detached import places

ONE_TURN = ("json_schema", "record", "replay")
"""Flags about one answer: with them a session ends with its turn."""


def parser_of_run() -> Parser:
    """The parser of `kode run`, with every flag that it has here, and `--worktree`."""
    from kode.plugin import Described
    from kode.plugin import main as run

    before, Parser.describing = Parser.describing, True  # completion may be asking for ours
    try:
        run([])
    except Described as described:
        parser = described.parser
    finally:
        Parser.describing = before
    parser.takes_more = False  # they are there by now
    parser.prog = "kode start"
    parser.description = "Start a task in the background: a session without a terminal."
    mine = "in a git worktree and on a branch of its own"
    parser.add_argument("--worktree", action="store_true", help=mine)
    return parser


def arguments_of(spec: places.Spec) -> argparse.Namespace:
    """What a session was started with. From here on this process works where that was typed, since
    its flags name files. Raises: ConfigError, for words that another kode knew."""
    with contextlib.suppress(OSError):  # gone meanwhile
        os.chdir(spec.here or spec.cwd)
    arguments = parser_of_run().parse(spec.words)
    arguments.cwd, arguments.session_id = spec.cwd, None
    return arguments


def screen_of(arguments: argparse.Namespace, cwd: Path) -> Screen:
    """The screen that its flags and `repl.plain` ask for. Raises: ConfigError."""
    flags = config_flags(arguments)
    loaded = load_config(paths.home(), cwd, environ=os.environ, flags=flags)
    plain = arguments.plain or loaded.config.repl.plain
    return open_screen(color=False if arguments.no_color else None, plain=plain)


def open_with_task(arguments: argparse.Namespace, spec: places.Spec, texts: Sequence[str]) -> int:
    """Opens a new session with its task and the texts piped in beside it, in this terminal or on
    the screen of `arguments`: a chat, or the one turn that its flags are about. Returns the exit
    status. Raises: as `kode run`."""
    from kode.plugin import asked, open_repl, run_read_task

    arguments.session_id = spec.id
    piped = tuple(Text(text=text, source="outside") for text in texts)
    if not any(getattr(arguments, name) for name in ONE_TURN):
        arguments.piped = piped
        return open_repl(arguments, spec.task, None, getattr(arguments, "screen", None))
    arguments.ask, arguments.output_format = True, None
    return run_read_task(arguments, asked(arguments, spec.task, None) or "", piped, None)
