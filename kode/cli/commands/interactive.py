"""`kode` without a command, and `kode continue`: opens the prompt, or runs a task, in a session.

Runs the set-up before the first prompt if there is none yet; `prompt.repl` runs the prompt.
"""

import argparse
import asyncio
import contextlib
import importlib
import json
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kode import installed, paths
from kode.cli.commands.run import RunOptions, run_read_task, run_task, wrap_by_plugins
from kode.cli.flags import add_conversation_flags, config_flags, finish_startup, working_directory
from kode.cli.parser import COMMANDS, Parser, is_completing, plugin_commands
from kode.cli.screen.lines import cell_width
from kode.cli.screen.printer import complain
from kode.cli.screen.screen import Screen, open_screen
from kode.errors import EXIT_NOT_STARTED, ConfigError, StorageError, UserError
from kode.messages import Text
from kode.registry import PROVIDERS
from kode.values import replace

if TYPE_CHECKING:
    from kode.conversation import Conversation
    from kode.permissions.question import Ask

PICK = ""
"""`-r` without an id: the person picks a session."""
ONE_TURN = ("json_schema", "record", "replay")
"""Flags about a single answer: with one of them, a prompt ends after its first turn."""


def main(argv: Sequence[str]) -> int:
    """Runs a command line without a command and returns its exit code. Raises: ConfigError for an
    unknown command."""
    arguments = _make_parser().parse(argv)
    task = arguments.task
    if arguments.session_id and not arguments.print:
        raise ConfigError("--session-id goes with `kode run` or -p. `kode -r ID` opens a session.")
    prints = arguments.print or arguments.input_format == "stream-json"
    if arguments.newest or arguments.resume is not None:
        return continue_session(arguments, arguments.resume, task or ("-" if prints else None))
    if not prints:
        if task and not any(c.isspace() for c in task):
            raise ConfigError(f"kode: unknown command {task!r}. Did you mean `kode run {task}`?")
        if stdin_is_terminal():
            return open_repl(arguments, task, None)
        stdin: Any = sys.stdin and sys.stdin.buffer
        is_silent = not task and (stdin is None or not stdin.peek(1))
        wants_text = arguments.output_format in (None, "text")
        if is_silent and wants_text and not is_set_up(arguments, working_directory(arguments)):
            from kode.cli.commands import demo

            complain("no terminal and no task, so here is the demo.")
            return demo.main([])
    return run_task(arguments, task, None)


def _make_parser() -> Parser:
    parser = Parser("kode", "The REPL of kode, a coding agent.")
    if is_completing():
        every = (COMMANDS | plugin_commands()).items()
        parser.add_commands({name: about for name, (_, about) in every if about})
    else:
        parser.add_argument("task", nargs="?", metavar="TASK", help="a first task, in quotes")
    parser.add_flags(
        ("-p --print", "same as `kode run TASK`"),
        ("-c --continue", "as `kode continue`", {"dest": "newest"}),
        ("-r --resume ID", "that session (id or name), or pick one", {"nargs": "?", "const": PICK}),
        ("--session-id ID", "with -p: the id of the new session"),
    )
    add_conversation_flags(parser)
    return parser


def continue_newest(argv: Sequence[str]) -> int:
    """Runs `kode continue` with these arguments and returns its exit code."""
    parser = Parser("kode continue", "Resume the newest session: with TASK like `kode run`.")
    parser.add_flags(("--id ID", "another: its id, a beginning of it, or its name"))
    parser.add_argument("task", nargs="?", metavar="TASK", help="the task; `-` reads stdin")
    add_conversation_flags(parser)
    arguments = parser.parse(argv)
    return continue_session(arguments, arguments.id, arguments.task)


def continue_session(arguments: argparse.Namespace, prefix: str | None, task: str | None) -> int:
    """Finds the session, then runs the task or opens the REPL in it. `prefix` is the beginning of
    an id or a name, `PICK` to let the person pick, None for the newest.

    Raises: SessionError if none or several match; ConfigError.
    """
    from kode.session.index import find_session

    if arguments.no_session:
        raise ConfigError("--no-session cannot be used when resuming. Drop one of the two.")
    cwd, is_watched = working_directory(arguments), stdin_is_terminal()
    if prefix == PICK:
        if is_watched and task is None:
            return open_repl(arguments, "/resume", None)
        raise ConfigError(
            "A session is picked at a terminal, and without a task. Name one with `kode -r ID`; "
            "`kode session list` lists them."
        )
    try:
        session_id = find_session(paths.kode_home(), prefix) if prefix else _find_newest(cwd)
    except StorageError as error:
        raise UserError(str(error)) from error
    if task is None and is_watched:
        return open_repl(arguments, None, session_id)
    return run_task(arguments, task, session_id)


def _find_newest(cwd: Path) -> str:
    """Finds the newest session to resume; names later ones passed over. Raises: SessionError."""
    from kode.session.index import find_newest, repair_order

    complain(repair_order(paths.kode_home()))
    session_id, passed = find_newest(paths.kode_home(), cwd)
    for summary in passed:
        why = "cannot be read" if summary.damaged else "has no task yet"
        what = f"session {summary.id}, used later, {why}: resuming {session_id}."
        complain(f"{what} `kode session check {summary.id}` says more.")
    return session_id


def stdin_is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def open_repl(
    arguments: argparse.Namespace,
    task: str | None,
    session_id: str | None,
    screen: "Screen | None" = None,
) -> int:
    """Opens the REPL; on a machine without key or config runs the set-up first. Raises: ConfigError
    for flags of `kode run`; KodeError if it could not start."""
    if arguments.json_schema or arguments.input_format == "stream-json":
        raise ConfigError("--json-schema and --input-format are for tasks: `kode run TASK`.")
    screen = screen or _make_screen(arguments)
    if sys.stdout.isatty() and not is_set_up(arguments, working_directory(arguments)):
        from kode.cli.commands import init

        if (code := init.first_run(screen)) is not None:
            return EXIT_NOT_STARTED if task else code  # a task that nobody began is no success
    with wrap_by_plugins(arguments, session_id):
        task = installed.rewrite_task(arguments, task, session_id)
        return asyncio.run(_repl(arguments, task, session_id, screen))


def is_set_up(arguments: argparse.Namespace, cwd: Path) -> bool:
    """Whether there is a provider to ask, or at least a setting whose fault is worth reporting.
    Common cases are decided without loading the configuration, which can wait for the prompt."""
    has_provider = any((arguments.provider, arguments.base_url, arguments.script))
    variables = ("KODE_API_KEY", "KODE_PROVIDER", *(row.key_variable for row in PROVIDERS))
    if has_provider or any(os.environ.get(name) for name in variables):
        return True
    if not paths.config_file(paths.kode_home()).exists() and not os.environ.get("KODE_BASE_URL"):
        return any(os.environ.get(row.url_variable) for row in PROVIDERS)
    from kode.config.choice import resolve_provider
    from kode.config.load import load_config

    flags = config_flags(arguments)
    config = load_config(paths.kode_home(), cwd, environ=os.environ, flags=flags).config
    try:
        resolve_provider(config, os.environ)
    except UserError:
        return bool(config.provider or config.base_url)
    return True


def open_prompt(
    options: "RunOptions", *, answerer: "Ask | None" = None, session_id: str | None = None
) -> int:
    """Opens the ordinary prompt in this terminal with the options of `kode run`; returns its exit
    code. It is a chat that begins with their task or, with a `ONE_TURN` flag, a single turn.
    Questions also go to an `answerer`; with one, nobody is assumed to watch the keys. `session_id`
    resumes that session, without what the flags have begun in it. Raises: as `kode run`."""
    from kode.cli.prompt.state import RunningPrompt

    arguments, task = options.arguments, options.task or None
    screen = arguments.screen = _make_screen(arguments)
    options.prompt = RunningPrompt(screen)
    if answerer is not None:
        screen.answerer, screen.watched = answerer, False
    if session_id is not None:
        for name in (*getattr(arguments, "of_plugins", ()), *ONE_TURN, "name"):
            setattr(arguments, name, None)
        return open_repl(arguments, task, session_id, screen)
    arguments.piped = tuple(Text(text=text, source="outside") for text in options.piped)
    if not any(getattr(arguments, name) for name in ONE_TURN):
        return open_repl(arguments, task, None, screen)
    arguments.ask, arguments.output_format = True, None
    text = installed.rewrite_task(arguments, task, None) or ""
    return run_read_task(arguments, text, arguments.piped, None)


def _make_screen(arguments: argparse.Namespace) -> "Screen":
    """The screen for these flags. Only `--plain` and the person's own file can make it plain; that
    file is read directly, because loading the configuration can wait for the prompt."""
    is_plain = bool(arguments.plain)
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        document = json.loads(paths.config_file(paths.kode_home()).read_bytes())
        is_plain |= document["repl"]["plain"] is True
    return open_screen(no_color=arguments.no_color, plain=is_plain)


async def _repl(
    arguments: argparse.Namespace, task: str | None, session_id: str | None, screen: "Screen"
) -> int:
    from kode.cli.prompt.repl import run_repl
    from kode.cli.screen.render import Renderer

    cwd = working_directory(arguments)
    renderer = Renderer(screen, unfolded=arguments.verbose)

    async def opening() -> "Conversation":
        # In threads, so that typing is drawn at once.
        await asyncio.to_thread(importlib.import_module, "kode.conversation")
        from kode.cli.commands.task import open_from_flags
        from kode.cli.screen.question import make_ask, make_elicit
        from kode.config.load import load_config
        from kode.conversation import Settings

        flags, home = config_flags(arguments), paths.kode_home()
        loaded = await asyncio.to_thread(load_config, home, cwd, environ=os.environ, flags=flags)
        if loaded.config.cache == "auto":  # a person pauses between messages
            loaded = replace(loaded, config=replace(loaded.config, cache="long"))
        ask = make_ask(screen, say=renderer.show_outcome)
        settings = Settings(loaded, emit=renderer.emit, ask=ask, elicit=make_elicit(screen))
        conversation = await open_from_flags(arguments, settings, session_id, piped=arguments.piped)
        if conversation.extensions is not None:
            conversation.extensions.start_all()
        # A daemon: leaving must never wait for an import.
        threading.Thread(target=_warm_up, args=(conversation,), daemon=True).start()
        return conversation

    return await run_repl(opening, task, screen=screen, renderer=renderer, cwd=cwd)


def _warm_up(conversation: "Conversation") -> None:
    """Imports what the first turn and its reply need while the person types."""
    import ctypes

    from kode.cli.screen import markdown
    from kode.conversation.sessions import import_first_turn

    import_first_turn(conversation)
    cell_width("日")  # reads a table of widths
    markdown.TerminalMarkdown("")  # loads rich and its parser
    finish_startup()
    getattr(ctypes.CDLL(None), "malloc_trim", abs)(0)  # glibc keeps what the imports freed
