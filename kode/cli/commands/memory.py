"""`kode memory`: view, search, change and undo what kode remembers. Works without a model; if words
find too little, a search uses one if available.

This module handles the command line, the configuration, and opening memory outside a session.
`kode.memory.commands`, which `/memory` of the REPL shares, implements the commands.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kode import durable, installed, paths
from kode.cli.flags import working_directory
from kode.cli.parser import Parser
from kode.cli.screen.printer import complain, on_screen
from kode.contracts import AskReply, Request
from kode.errors import EXIT_OK, KodeError
from kode.events import Event, Notice, silent
from kode.messages import Message
from kode.plain_text import clean

if TYPE_CHECKING:
    from kode.config import Loaded

ASKS_A_MODEL = ("consolidate", "search")
"""Commands that may ask a model. A search goes on without one."""


def main(argv: Sequence[str]) -> int:
    """Runs one command. Raises: KodeError with its exit code."""
    first = Parser("kode memory", "", add_help=False)
    add_flags(first)
    flags, rest = first.parse_known_args(list(argv))
    if (of_plugin := installed.subcommand("memory", rest)) is not None:
        return of_plugin([*rest[1:], *(("--cwd", flags.cwd) if flags.cwd else ())])
    parser = Parser("kode memory", "See, search, change and undo what kode remembers.")
    wants_help = not {"-h", "--help"}.isdisjoint(argv)
    add_arguments(parser, _active_system(flags) if wants_help else "")
    return run(parser.parse(list(argv)))


def _active_system(flags: argparse.Namespace) -> str:
    """The system whose commands a help lists; "" for all, where the config cannot be read."""
    try:
        return _load(flags).config.memory.system
    except KodeError:
        return ""


def _load(flags: argparse.Namespace) -> "Loaded":
    """Raises: ConfigError."""
    from kode.config import load_config

    system = {"memory.system": flags.memory} if flags.memory else {}
    return load_config(paths.home(), working_directory(flags), environ=os.environ, flags=system)


def add_arguments(parser: Parser, system: str = "") -> None:
    from kode.memory.commands import add_commands

    add_flags(parser)
    for command in add_commands(parser, system):
        # Suppressed, so that a default does not override a flag given before the command.
        for flag in ("--memory", "--cwd"):
            command.add_argument(flag, default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def add_flags(parser: Parser) -> None:
    parser.add_argument(
        "--memory", metavar="SYSTEM", help="use this system instead of the configured one"
    )
    parser.add_argument("--cwd", metavar="DIR", help="use this project's memory")


def run(arguments: argparse.Namespace) -> int:
    """Runs a parsed command and prints the result. Raises: KodeError."""
    loaded = _load(arguments)
    for warning in filter(None, (paths.home_fault(paths.home()), *loaded.warnings)):
        complain([warning])
    work = _review if arguments.command == "review" else _run
    text = asyncio.run(work(loaded, arguments))
    if text:
        # Files of memory are edited by hand and synced; an export stays unchanged.
        print(text if arguments.command == "export" else on_screen(text))
    return EXIT_OK


async def _run(loaded: "Loaded", arguments: argparse.Namespace) -> str:
    from kode.memory.commands import open_outside, run_command, with_undo

    config, cwd = loaded.config, working_directory(arguments)
    durable.remove_all_stale_temporaries(paths.memory_folder(paths.home(), config.memory.data_dir))
    ask_reply = _ask_reply(loaded) if arguments.command in ASKS_A_MODEL else None
    async with open_outside(config, cwd, emit=_say, ask_reply=ask_reply) as memory:
        confirm = _confirm if sys.stdin and sys.stdin.isatty() else None
        return with_undo(await run_command(memory.system, arguments, confirm))


async def _review(loaded: "Loaded", arguments: argparse.Namespace) -> str:
    """Interactive with single keys on a terminal, otherwise a list."""
    from kode.cli.prompt.memory_review import review_memory
    from kode.cli.prompt.repl import asking
    from kode.cli.prompt.state import PromptState
    from kode.cli.screen.render import Renderer
    from kode.cli.screen.screen import open_screen
    from kode.memory.commands import open_outside
    from kode.memory.review import items

    terminals = sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()
    if terminals and not arguments.list:
        async with open_outside(loaded.config, working_directory(arguments), emit=_say) as memory:
            if await items(memory.system):
                screen = open_screen()
                async with asking(PromptState(screen, Renderer(screen), {}, listens=False)):
                    await review_memory(screen, memory.system)
                return ""
    return await _run(loaded, arguments)


def _ask_reply(loaded: "Loaded") -> AskReply:
    """Memory's model, resolved on first use: most commands never need it."""

    async def ask(request: Request) -> Message:
        from kode.config import small_choice

        config = loaded.config
        choice = small_choice(config, os.environ, config.memory.model or config.small_model)
        from kode.assembly import make_provider  # slow, and not needed without a provider

        provider = make_provider(config, choice)
        try:
            return await provider.reply(request, silent)
        finally:
            await provider.aclose()

    return ask


def _confirm(question: str) -> bool:
    """Asks on the terminal; anything but yes means no."""
    try:
        return input(f"{clean(question)} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _say(event: Event) -> None:
    """Ignores changes: the command's own text reports them."""
    if isinstance(event, Notice):
        complain([event.text])
