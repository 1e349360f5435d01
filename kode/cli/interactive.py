"""`kode` without a command: the REPL, with `-p`, `-c` and `-r` as short ways to the others.

This module parses and opens; what happens at the prompt is in `repl.py`.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kode.cli.flags import add_conversation_flags, config_flags, working_directory
from kode.cli.main import Parser
from kode.errors import ConfigError, UserError

if TYPE_CHECKING:
    from kode.config import Loaded


def main(argv: Sequence[str]) -> int:
    """Runs the command line that names no command and returns its exit code."""
    parser = Parser("kode", "The REPL of kode, a coding agent.")
    parser.add_argument("task", nargs="?", metavar="TASK", help="a first task, in quotes")
    parser.add_argument("-p", "--print", action="store_true", help="as `kode run TASK`")
    parser.add_argument("-c", "--continue", action="store_true", dest="newest")
    parser.add_argument("-r", "--resume", metavar="ID", help="as `kode continue --id ID`")
    add_conversation_flags(parser)
    arguments = parser.parse(argv)
    if arguments.print:
        return _print(arguments)
    if arguments.newest or arguments.resume:
        from kode.cli.resume import continue_session

        return continue_session(arguments, arguments.resume, arguments.task)
    if arguments.task and not any(c.isspace() for c in arguments.task):
        raise ConfigError(
            f"kode: unknown command {arguments.task!r}. A task goes in quotes, or after `kode run`."
        )
    if not stdin_is_terminal():
        from kode.cli.run import run_task

        return run_task(arguments, arguments.task, None)
    return open_repl(arguments, arguments.task, None)


def stdin_is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def open_repl(arguments: argparse.Namespace, task: str | None, session_id: str | None) -> int:
    """Opens the REPL; a machine without key or config is led through the set-up first."""
    from kode.config import load_config, resolve_provider
    from kode.paths import home

    cwd = working_directory(arguments)
    flags = config_flags(arguments)
    loaded = load_config(home(), cwd, environ=os.environ, flags=flags)
    try:
        resolve_provider(loaded.config, os.environ)
    except UserError:
        if loaded.config.provider or loaded.config.base_url or not sys.stdout.isatty():
            raise
        from kode.cli.init import first_run

        code = first_run(home())
        if code is not None:
            return code
        loaded = load_config(home(), cwd, environ=os.environ, flags=flags)
    return asyncio.run(_repl(arguments, loaded, task, session_id))


async def _repl(
    arguments: argparse.Namespace, loaded: "Loaded", task: str | None, session_id: str | None
) -> int:
    from kode.cli.ask import make_ask
    from kode.cli.render import Renderer
    from kode.cli.repl import run_repl
    from kode.cli.run import read_attachments
    from kode.cli.screen import open_screen
    from kode.conversation import open_conversation

    cwd = working_directory(arguments)
    screen = open_screen(color=False if arguments.no_color else None)
    renderer = Renderer(screen)
    conversation = await open_conversation(
        loaded,
        cwd=cwd,
        emit=renderer.emit,
        ask=make_ask(screen),
        session_id=session_id,
        keep_session=not arguments.no_session,
        attachments=read_attachments(arguments.ctx, cwd),
    )
    provider = conversation.agent.provider.name

    def warm() -> None:
        from kode.providers import warm_up

        warm_up(provider)

    return await run_repl(conversation, task, screen=screen, renderer=renderer, warm_up=warm)


def _print(arguments: argparse.Namespace) -> int:
    from kode.cli.run import run_task

    if arguments.newest or arguments.resume:
        from kode.cli.resume import continue_session

        return continue_session(arguments, arguments.resume, arguments.task or "-")
    return run_task(arguments, arguments.task, None)
