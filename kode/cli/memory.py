"""`kode memory`: see, search, change and undo what kode remembers. Works without a model.

Here: the command line, the configuration, opening memory outside a session. What the commands do
is in `kode.memory.commands`, which `/memory` of the REPL shares.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from kode import paths
from kode.cli.flags import working_directory
from kode.cli.main import Parser
from kode.contracts import AskModel, MemoryContext, Request
from kode.errors import EXIT_OK, UserError
from kode.events import Event, Notice, silent
from kode.messages import text_of, user_message

if TYPE_CHECKING:
    from kode.config import Loaded
    from kode.contracts import Provider

ASKS_A_MODEL = frozenset({"consolidate"})
"""Commands that cannot do without. The others never ask, so that they work at once and offline."""


def main(argv: Sequence[str]) -> int:
    """Runs one command. Raises: KodeError with its exit code."""
    parser = Parser("kode memory", "See, search, change and undo what kode remembers.")
    add_arguments(parser)
    return run(parser.parse(list(argv)))


def add_arguments(parser: Parser) -> None:
    from kode.memory.commands import add_commands

    parser.add_argument("--memory", metavar="SYSTEM", help="another system than the configured one")
    parser.add_argument("--cwd", metavar="DIR", help="the project to look at")
    add_commands(parser)


def run(arguments: argparse.Namespace) -> int:
    """Does what was parsed and prints the result. Raises: KodeError."""
    from kode.config import load_config

    cwd = working_directory(arguments)
    flags = {"memory.system": arguments.memory} if arguments.memory else {}
    loaded = load_config(paths.home(), cwd, environ=os.environ, flags=flags)
    for warning in loaded.warnings:
        print(f"kode: {warning}", file=sys.stderr)
    text = asyncio.run(_run(loaded, arguments))
    if text:
        print(text)
    return EXIT_OK


async def _run(loaded: "Loaded", arguments: argparse.Namespace) -> str:
    from kode.memory import make_system
    from kode.memory.commands import run_command
    from kode.memory.null import NullMemory

    config = loaded.config
    system = make_system(config.memory) if config.memory.enabled else NullMemory()
    cwd = working_directory(arguments)
    provider = _provider(loaded) if arguments.command in ASKS_A_MODEL else None
    context = MemoryContext(
        root=paths.memory_folder(paths.home()),
        cwd=cwd,
        project_root=paths.repository_root(cwd),
        session_id=None,
        emit=_say,
        ask_model=_ask_model(provider) if provider else None,
        now=lambda: datetime.now().astimezone(),
    )
    await system.open(context, {})
    try:
        return await run_command(system, arguments)
    finally:
        await system.close(1.0)
        if provider is not None:
            await provider.aclose()


def _provider(loaded: "Loaded") -> "Provider | None":
    """The model of memory; None without a key, and then the command says what that means."""
    from kode.config import resolve_provider
    from kode.providers import open_provider

    config = loaded.config
    if config.memory.model:
        config = config.model_copy(update={"model": config.memory.model})
    try:
        return open_provider(config, resolve_provider(config, os.environ))
    except UserError as error:
        print(f"kode: {error}", file=sys.stderr)
        return None


def _ask_model(provider: "Provider") -> AskModel:
    async def ask(system: str, prompt: str, max_output_tokens: int) -> str:
        request = Request(
            system=system, messages=(user_message(prompt),), max_output_tokens=max_output_tokens
        )
        return text_of(await provider.reply(request, silent))

    return ask


def _say(event: Event) -> None:
    """Changes are told by the command's own text."""
    if isinstance(event, Notice):
        print(f"kode: {event.text}", file=sys.stderr)
