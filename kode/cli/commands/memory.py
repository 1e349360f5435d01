"""`kode memory`: shows, searches, changes and undoes what kode remembers. It needs no model; a
search that finds too little by words asks one if there is one.

This module handles the command line, the configuration, and opening memory outside a session.
`kode.memory.commands`, which `/memory` of the REPL shares, implements the commands.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kode import durable, installed, paths
from kode.cli.flags import working_directory
from kode.cli.parser import Parser
from kode.cli.screen.printer import complain, print_document, print_notice, say
from kode.errors import EXIT_OK, KodeError
from kode.events import no_emit
from kode.messages import Message
from kode.plain_text import sanitize
from kode.provider import Request

if TYPE_CHECKING:
    from kode.config.load import Loaded
    from kode.config.model import Config

ASKS_A_MODEL = ("consolidate", "search")
"""Commands that may ask a model; a search also works without one."""


def main(argv: Sequence[str]) -> int:
    """Runs `kode memory` with these arguments and returns its exit code. Raises: KodeError."""
    from kode.memory.commands import COMMANDS, add_commands

    of_all = Parser("kode memory", "", add_help=False)
    parser = Parser("kode memory", "See, search, change and undo what kode remembers.")
    for each in (of_all, parser):
        each.add_argument("--memory", metavar="SYSTEM", help="use this system instead")
        each.add_argument("--cwd", metavar="DIR", help="use this project's memory")
    flags, rest = of_all.parse_known_args(list(argv))
    is_own = any(command.name in rest[:1] for command in COMMANDS)
    if not is_own and (of_plugin := installed.find_command("memory", *rest[:1])) is not None:
        return of_plugin([*rest[1:], *(("--cwd", flags.cwd) if flags.cwd else ())])
    loaded = None
    try:
        loaded = _load_settings(flags)
    except KodeError:
        if {"-h", "--help"}.isdisjoint(argv):
            raise
    add_commands(parser, rest, loaded.config.memory.system if loaded else "")
    arguments, loaded = parser.parse(rest), loaded or _load_settings(flags)
    complain(paths.find_home_fault(paths.kode_home()), *loaded.warnings)
    if text := asyncio.run(_run_command(loaded.config, working_directory(flags), arguments)):
        # Memory's files may be edited by hand or synced: they are cleaned, an export is not.
        (print_document if arguments.command == "export" else say)(text)
    return EXIT_OK


def _load_settings(flags: argparse.Namespace) -> "Loaded":
    """Loads the settings for `--memory` and `--cwd`. Raises: ConfigError."""
    from kode.config.load import load_config

    system, cwd = {"memory.system": flags.memory} if flags.memory else {}, working_directory(flags)
    return load_config(paths.kode_home(), cwd, environ=os.environ, flags=system)


async def _run_command(config: "Config", cwd: Path, arguments: argparse.Namespace) -> str:
    from kode.memory.commands import open_memory, run_command, with_undo

    memory_folder = paths.memory_folder(paths.kode_home(), config.memory.data_dir)
    durable.remove_stale_temporaries(memory_folder, also_below=True)
    ask_reply = partial(_ask_reply, config) if arguments.command in ASKS_A_MODEL else None
    confirm = _confirm if sys.stdin and sys.stdin.isatty() else None
    async with open_memory(config, cwd, emit=print_notice, ask_reply=ask_reply) as memory:
        return with_undo(await run_command(memory.system, arguments, confirm))


async def _ask_reply(config: "Config", request: Request) -> Message:
    """Asks memory's model, which is chosen only here: most commands never need one."""
    from kode.config.choice import choose_small_model

    choice = choose_small_model(config, os.environ, config.memory.model or config.small_model)
    from kode.assembly import make_provider  # slow, and not needed without a provider

    provider = make_provider(config, choice)
    try:
        return await provider.reply(request, no_emit)
    finally:
        await provider.aclose()


def _confirm(question: str) -> bool:
    """Asks on the terminal; True for `y` or `yes`, False for anything else and at end of input."""
    try:
        return input(f"{sanitize(question)} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False
