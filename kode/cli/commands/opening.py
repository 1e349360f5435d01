"""Opens the REPL in a new or old session, running the set-up first if there is none yet.

`repl.py` runs the prompt.
"""

import argparse
import asyncio
import contextlib
import importlib
import json
import os
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kode import installed
from kode.cli.flags import (
    config_flags,
    finish_startup,
    model_flags,
    working_directory,
)
from kode.errors import EXIT_NOT_STARTED, ConfigError, UserError
from kode.registry import PROVIDERS

if TYPE_CHECKING:
    from kode.cli.commands.run import RunOptions
    from kode.cli.screen.screen import Screen
    from kode.conversation import Conversation
    from kode.permissions.question import Ask


def stdin_is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def open_repl(
    arguments: argparse.Namespace,
    task: str | None,
    session_id: str | None,
    screen: "Screen | None" = None,
) -> int:
    """Opens the REPL; on a machine without key or config runs the set-up first, or the demo if the
    output is not a terminal. Raises: ConfigError for flags of `kode run`; KodeError if it could not
    start."""
    if arguments.json_schema or arguments.input_format == "stream-json":
        raise ConfigError("--json-schema and --input-format are for tasks: `kode run TASK`.")
    cwd, task = working_directory(arguments), installed.rewrite_task(arguments, task, session_id)
    ready = is_set_up(arguments, cwd)
    if not ready and not task and not sys.stdout.isatty():
        from kode.cli.commands import demo

        return demo.main([])
    if not ready and sys.stdout.isatty():
        from kode.cli.commands import init

        if (code := init.first_run()) is not None:
            return EXIT_NOT_STARTED if task else code  # a task that nobody began is no success
    return asyncio.run(_repl(arguments, task, session_id, screen))


def is_set_up(arguments: argparse.Namespace, cwd: Path) -> bool:
    """Whether there is a provider to ask, or at least a setting whose fault is worth reporting.
    Common cases are decided without loading the configuration, which can wait for the prompt."""
    from kode.paths import config_file, home

    has_provider = any((arguments.provider, arguments.base_url, arguments.script))
    variables = ("KODE_API_KEY", "KODE_PROVIDER", *(row.key_variable for row in PROVIDERS))
    if has_provider or any(os.environ.get(name) for name in variables):
        return True
    if not config_file(home()).exists() and not os.environ.get("KODE_BASE_URL"):
        return any(os.environ.get(row.url_variable) for row in PROVIDERS)
    from kode.config.choice import resolve_provider
    from kode.config.load import load_config

    loaded = load_config(home(), cwd, environ=os.environ, flags=config_flags(arguments))
    try:
        resolve_provider(loaded.config, os.environ)
    except UserError:
        return bool(loaded.config.provider or loaded.config.base_url)
    return True


def _wants_plain(arguments: argparse.Namespace) -> bool:
    """Whether the screen shall be plain. Only the flag and the person's own file can say so, which
    is read as it is: loading the configuration can wait for the prompt."""
    from kode.paths import config_file, home

    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        document = json.loads(config_file(home()).read_bytes())
        return arguments.plain or document["repl"]["plain"] is True
    return bool(arguments.plain)


ONE_TURN = ("json_schema", "record", "replay")
"""Flags about one answer: with them a prompt ends with its turn."""


def open_prompt(
    options: "RunOptions", *, answerer: "Ask | None" = None, session_id: str | None = None
) -> int:
    """Opens the ordinary prompt in this terminal with the options of `kode run`, and returns its
    exit code: a chat that begins with their task, or the one turn that their flags are about.
    `answerer` is asked beside the keys, which nobody watches then. `session_id` is a session to
    resume, without what the flags have begun in it. Raises: as `kode run`."""
    arguments, task = options.arguments, options.task or None
    screen = arguments.screen = _make_screen(arguments)
    from kode.cli.prompt.state import RunningPrompt

    options.prompt = RunningPrompt(screen)
    if answerer is not None:
        screen.beside, screen.watched = answerer, False
    if session_id is not None:
        for name in (*getattr(arguments, "of_plugins", ()), *ONE_TURN):
            setattr(arguments, name, None)
        return open_repl(arguments, task, session_id, screen)
    from kode.messages import Text

    piped = tuple(Text(text=text, source="outside") for text in options.piped)
    if not any(getattr(arguments, name) for name in ONE_TURN):
        arguments.piped = piped
        return open_repl(arguments, task, None, screen)
    from kode.cli.commands.run import run_read_task

    arguments.ask, arguments.output_format = True, None
    text = installed.rewrite_task(arguments, task, None) or ""
    return run_read_task(arguments, text, piped, None)


def _make_screen(arguments: argparse.Namespace) -> "Screen":
    from kode.cli.screen.screen import open_screen

    color = False if arguments.no_color else None
    return open_screen(color=color, plain=_wants_plain(arguments))


async def _repl(
    arguments: argparse.Namespace, task: str | None, session_id: str | None, screen: "Screen | None"
) -> int:
    from kode.cli.prompt.repl import run_repl
    from kode.cli.screen.render import Renderer

    cwd = working_directory(arguments)
    screen = screen or _make_screen(arguments)
    renderer = Renderer(screen, unfolded=arguments.verbose)

    async def opening() -> "Conversation":
        # In threads, so that typing is drawn at once.
        await asyncio.to_thread(importlib.import_module, "kode.conversation")
        from kode.cli.commands.task import open_from_flags
        from kode.cli.screen.question import make_ask, make_elicit
        from kode.config.load import load_config
        from kode.conversation import Settings
        from kode.paths import home

        flags = config_flags(arguments)
        loaded = await asyncio.to_thread(load_config, home(), cwd, environ=os.environ, flags=flags)
        if loaded.config.cache == "auto":  # a person pauses between messages
            loaded = replace(loaded, config=loaded.config.model_copy(update={"cache": "long"}))
        ask = make_ask(screen, say=renderer.show_outcome)
        settings = Settings(loaded, emit=renderer.emit, ask=ask, elicit=make_elicit(screen))
        conversation = await open_from_flags(
            arguments, settings, session_id, piped=getattr(arguments, "piped", ())
        )
        if conversation.extensions is not None:
            conversation.extensions.start_all()
        # A daemon: leaving must never wait for an import.
        threading.Thread(target=_warm_up, args=(conversation,), daemon=True).start()
        return conversation

    return await run_repl(
        opening,
        task,
        screen=screen,
        renderer=renderer,
        cwd=cwd,
        resume_flags=model_flags(arguments),
    )


def _warm_up(conversation: "Conversation") -> None:
    """Imports what the first turn and its reply need, while the person types."""
    from kode.cli.screen.diffs import pieces
    from kode.cli.screen.lines import cell_width
    from kode.cli.screen.markdown import markdown
    from kode.conversation.sessions import import_first_turn

    import_first_turn(conversation)
    # The first rendering loads rich and its parser; the first code block looks for lexers.
    cell_width("日")  # reads a table of widths
    markdown("")
    pieces("a.py", "")
    finish_startup()
