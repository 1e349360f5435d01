"""`kode run`: runs one task, prints the answer to stdout, and exits. Also used by `kode continue
TASK` and `kode -p`."""

import argparse
import asyncio
import contextlib
import os
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kode import durable, installed, paths
from kode.cli.commands.task import (
    interrupt_by_signals,
    open_from_flags,
    read_answer_form,
    read_attachments,
    read_task,
)
from kode.cli.flags import (
    SCRIPTED,
    add_conversation_flags,
    config_flags,
    finish_startup,
    read_servers,
    working_directory,
)
from kode.cli.parser import Parser
from kode.cli.screen.lines import one_line
from kode.cli.screen.printer import complain, print_event, print_json, print_line, print_notice, say
from kode.cli.screen.screen import open_screen
from kode.errors import ConfigError, StorageError
from kode.events import EXIT_CODES, FINISHED, UNBEGUN, Emit, Event, Notice, TurnEnded, no_emit
from kode.messages import Usage, cut_list
from kode.process import SIGNALS, cancelled_by_signals, handle_signals
from kode.values import dataclass

if TYPE_CHECKING:
    from kode.cli.prompt.state import PromptState, RunningPrompt
    from kode.config.load import Loaded
    from kode.conversation import Conversation
    from kode.extensions.mcp_config import Elicit
    from kode.messages import Text
    from kode.permissions.question import Ask


CASSETTE = "cassette"
"""The format of the files of `--record` and `--replay`; `kode session export` knows it too."""
NO_TASK = (
    'There is no task. Give one in quotes, e.g. `kode run "fix the failing test"`, or pipe it in.'
)
ABOUT = "One task, the answer on stdout, then exit. `-`, or no TASK and a pipe: stdin."


def main(argv: Sequence[str]) -> int:
    """Runs `kode run` with these arguments and returns its exit code. Raises: as `run_task`."""
    arguments = RunOptions.parse(argv).arguments
    return run_task(arguments, arguments.task, session_id=None)


@dataclass
class RunOptions:
    """The options of a command line of `kode run`, with the input that `read_task` reads."""

    arguments: argparse.Namespace
    task: str = ""
    """The task as it was typed, or as it was read from stdin."""
    title: str = ""
    """The task, or the text that a plug-in's flag puts in its place."""
    piped: tuple[str, ...] = ()
    """Texts that were piped in together with the task."""
    prompt: "RunningPrompt | None" = None
    """The prompt; None until `open_prompt` has opened it."""

    @classmethod
    def parse(
        cls, argv: Sequence[str], command: str = "kode run", about: str = ABOUT
    ) -> "RunOptions":
        """Parses TASK and the flags of `kode run`, including those of plug-ins, for any command
        that takes them. Raises: ConfigError."""
        parser = Parser(command, about)
        add = parser.add_argument
        add("task", nargs="?", metavar="TASK", help="the task; `-` reads stdin")
        add_conversation_flags(parser)
        add("--record", metavar="FILE", help="record this run as a cassette; without memory")
        add("--replay", metavar="FILE", help="take the model's answers from a cassette")
        add("--session-id", metavar="ID", help="the id of the new session")
        return cls(parser.parse(argv))

    def read_task(self) -> None:
        """Reads the task, and what is piped in. Raises: ConfigError without a task."""
        arguments = self.arguments
        if arguments.task is None and (title := installed.rewrite_task(arguments, None, None)):
            self.title = title
            return
        self.task, piped = read_task(arguments.task)
        self.title = (installed.rewrite_task(arguments, self.task, None) or "").strip()
        self.piped = tuple(part.text for part in piped)
        if not self.title:
            raise ConfigError(NO_TASK)

    def check(self, cwd: Path) -> None:
        """Checks for faults that would end a run in this folder at once. Raises: UserError."""
        from kode.assembly import read_rules
        from kode.config.choice import resolve_provider

        if fault := paths.find_home_fault(paths.kode_home()):
            raise ConfigError(fault)
        with _load_settings(self.arguments, cwd) as (loaded, recorded):
            if recorded is None:
                resolve_provider(loaded.config, os.environ, loaded.origins)
        read_rules(loaded.config, loaded.origins)
        read_answer_form(self.arguments, cwd)
        read_servers(self.arguments, cwd)
        read_attachments(self.arguments.ctx, cwd, loaded.config.roots(cwd), no_emit)


@contextlib.contextmanager
def _load_settings(arguments: argparse.Namespace, cwd: Path) -> "Iterator[tuple[Loaded, Any]]":
    """Yields the configuration with the flags applied, and the model of `--replay`, which needs no
    key, or None. Raises: ConfigError; SessionError for a file that is not a cassette."""
    from kode.config.load import load_config

    files = (arguments.record, arguments.replay)
    record, replay = (None if path is None else Path(path) for path in files)
    if record and (replay or arguments.no_session):
        other = "--replay" if replay else "--no-session"
        raise ConfigError(f"--record cannot be used with {other}. Drop one of the two.")
    if (record or replay) and CASSETTE not in installed.find_additions("replays"):
        raise ConfigError(
            "--record and --replay need a plug-in that is off or missing: one that writes and "
            f"plays the format {CASSETTE}. `kode plugin list` shows those that are installed."
        )
    if record and (record.is_dir() or not record.parent.is_dir()):
        raise ConfigError(f"--record {record}: name a file in a folder that exists.")
    flags, recorded = config_flags(arguments), None
    if record or replay:
        flags["memory.enabled"] = False
    with contextlib.ExitStack() as stack:
        if replay and not replay.is_file():
            made = f"`kode run --record {replay} TASK` makes it."
            raise ConfigError(f"There is no file {replay}. {made}")
        if replay:
            play = installed.find_additions("replays")[CASSETTE]
            recorded = stack.enter_context(installed.call_part(*play, replay))
            flags |= {"provider": SCRIPTED, "tool_format": recorded.tool_format}
        yield load_config(paths.kode_home(), cwd, environ=os.environ, flags=flags), recorded


def _write_cassette(arguments: argparse.Namespace, session_id: str | None) -> None:
    """Writes the file of `--record` after the run. Raises: SessionError, StorageError."""
    record = arguments.record
    if record is None or session_id is None:
        return
    from kode.session.index import session_path
    from kode.session.transcript import Transcript

    transcript = Transcript.read(session_path(paths.kode_home(), session_id))
    exported = installed.call_part(*installed.find_additions("exports")[CASSETTE], transcript)
    durable.replace_file(Path(record), exported.data)
    if not arguments.quiet:
        say("\n  ".join((f"recorded: {record}, which holds:", *exported.contains)), sys.stderr)


def run_task(arguments: argparse.Namespace, task: str | None, session_id: str | None) -> int:
    """Runs one task in a new session, or in the one named, and returns the exit code; with
    `--input-format stream-json`, runs the turns that arrive on stdin.

    Raises: UserError, SessionError or StorageError if it could not start; ConfigError for flags
    that contradict each other.
    """
    with wrap_by_plugins(arguments, session_id):
        arguments.task = task = installed.rewrite_task(arguments, task, session_id)
        if arguments.input_format != "stream-json":
            return run_read_task(arguments, *read_task(task), session_id)
        if arguments.output_format != "stream-json" or task == "-":
            raise ConfigError(
                "--input-format stream-json takes messages from stdin: give --output-format "
                "stream-json with it, and no TASK of `-`."
            )
        interrupt_by_signals()
        return asyncio.run(_run_task(arguments, task or "", (), session_id))


@contextlib.contextmanager
def wrap_by_plugins(arguments: argparse.Namespace, session_id: str | None) -> "Iterator[None]":
    """Wraps a run or a chat in what plug-ins whose flags were given add. Raises: UserError."""
    with contextlib.ExitStack() as stack:
        for plugin in installed.enabled_plugins() if getattr(arguments, "of_plugins", ()) else ():
            if plugin.around_run:
                around = installed.call_part(plugin, plugin.around_run, arguments, session_id)
                stack.enter_context(around)
        yield


def run_read_task(
    arguments: argparse.Namespace, text: str, piped: "tuple[Text, ...]", session_id: str | None
) -> int:
    """Like `run_task`, for a task and piped input that have been read already. Raises: ConfigError
    without a task; else as `run_task`."""
    if not text.strip():
        raise ConfigError(NO_TASK)
    return asyncio.run(_run_task(arguments, text, piped, session_id))


async def _run_task(
    arguments: argparse.Namespace, text: str, piped: "tuple[Text, ...]", session_id: str | None
) -> int:
    from kode.conversation import Settings
    from kode.providers import warm_up

    cwd, warnings = working_directory(arguments), list[str]()
    with _load_settings(arguments, cwd) as (loaded, recorded):
        form = read_answer_form(arguments, cwd)
        output = _open_output(arguments, plain=loaded.config.repl.plain)

        def emit(event: Event) -> None:
            if isinstance(event, Notice) and event.level != "info":
                warnings.append(event.text)
            output.emit(event)

        settings = Settings(loaded, emit=emit, ask=output.ask, elicit=output.elicit)
        conversation = await open_from_flags(
            arguments, settings, session_id, task=text, piped=piped, provider=recorded
        )
        session = conversation.session
        if recorded is not None:
            place, context = conversation.agent.place, conversation.context
            recorded.follow(place.home, place.project, session.id, lambda: context.sections)
        shown = output.shows_answer
        conclude = partial(_print_result, arguments, conversation, shown=shown, warnings=warnings)
        turn = partial(conversation.turn, form=form)
        try:
            warm_up(conversation.agent.provider)
            finish_startup()
            if arguments.input_format == "stream-json":
                from kode.cli.commands.stream_input import run_stream

                code = await run_stream(conversation, text, turn, conclude)
            elif output.prompt is not None:
                from kode.cli.prompt.repl import run_in_prompt

                # Without a typed task the text is from standard input.
                output.prompt.opened = conversation
                ended = await _await_end(
                    run_in_prompt(output.prompt, text, arguments.task or "", form)
                )
                output.prompt.screen.ended = ended
                conclude(ended := await conversation.end_jobs(ended))
                code = EXIT_CODES[ended.status]
            else:
                running = _await_end(turn(text, typed=arguments.task or ""))
                code = await take_turn(conversation, running, conclude)
        finally:
            if arguments.output_format == "stream-json":  # `result` stays the last line
                output.emit = print_notice
            # A program that reads the answer waits at most this long for the session to close.
            wait_s = None if sys.stdout.isatty() else loaded.config.memory.exit_wait_s
            closing = asyncio.ensure_future(conversation.close(wait_s=wait_s))
            with cancelled_by_signals(closing), contextlib.suppress(asyncio.CancelledError):
                if output.prompt is not None:
                    from kode.cli.prompt.repl import show_closing

                    await show_closing(output.prompt, closing)
                await closing  # if interrupted, memory leaves its work for the next start
    _write_cassette(arguments, session.id)
    return code


async def take_turn(
    conversation: "Conversation",
    turn: Coroutine[Any, Any, TurnEnded],
    conclude: Callable[[TurnEnded], object],
    on_signal: Callable[[], object] | None = None,
) -> int:
    """Runs the one turn of a conversation, ends what it left in the background, and passes how it
    ended to `conclude`; returns the exit code. A signal cancels the turn, or calls `on_signal`.
    Raises: what `turn` does."""
    task = asyncio.ensure_future(turn)
    with handle_signals(dict.fromkeys(SIGNALS, on_signal or task.cancel)):
        conclude(ended := await conversation.end_jobs(await task))
    return EXIT_CODES[ended.status]


async def _await_end(task: Awaitable[TurnEnded]) -> TurnEnded:
    """Awaits a turn and returns how it ended; `UNBEGUN` if it was stopped before it started.

    Raises: UserError if the task could not be recorded.
    """
    from kode.conversation.sessions import not_recorded_error

    try:
        return await task
    except StorageError as error:  # raised only if nothing was done yet
        raise not_recorded_error(error) from error
    except asyncio.CancelledError:
        return UNBEGUN


@dataclass(kw_only=True)
class _Output:
    """Where the events, questions and prompt of a run go; None for a part that the run lacks."""

    emit: "Emit"
    ask: "Ask | None" = None
    elicit: "Elicit | None" = None
    prompt: "PromptState | None" = None
    shows_answer: bool = False
    """Whether the answer is on the terminal before it is printed."""


def _open_output(arguments: argparse.Namespace, *, plain: bool) -> _Output:
    """The output for these flags. Raises: ConfigError where nobody can be asked."""
    at_terminal = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    if arguments.ask and not (at_terminal and arguments.output_format in (None, "text")):
        raise ConfigError(
            "--ask needs a terminal (stdin and stderr), and --output-format text. Without it, kode "
            "refuses what needs permission: --allow RULE and --permission-mode MODE give it."
        )
    if arguments.output_format == "stream-json":
        return _Output(emit=print_event)
    if arguments.output_format == "json":
        return _Output(emit=no_emit)
    screen = arguments.screen or open_screen(
        no_color=arguments.no_color, stream=sys.stderr, plain=plain
    )
    if not arguments.ask:
        from kode.cli.screen.render import ProgressRenderer

        live = not arguments.quiet
        shown = ProgressRenderer(screen, unfolded=arguments.verbose, live_line=live)
        return _Output(emit=no_emit if arguments.quiet else shown.emit)
    from kode.cli.prompt.slash import COMMANDS
    from kode.cli.prompt.state import PromptState
    from kode.cli.screen.question import make_ask, make_elicit
    from kode.cli.screen.render import Renderer

    renderer = Renderer(screen, unfolded=arguments.verbose)
    return _Output(
        emit=no_emit if arguments.quiet else renderer.emit,
        ask=make_ask(screen, say=renderer.show_outcome),
        elicit=make_elicit(screen),
        prompt=PromptState(screen, renderer, COMMANDS),
        shows_answer=not arguments.quiet and sys.stdout.isatty(),
    )


def _print_result(
    arguments: argparse.Namespace,
    conversation: "Conversation",
    ended: TurnEnded,
    *,
    shown: bool,
    warnings: Sequence[str],
) -> None:
    """Prints how a turn ended; `shown` means its answer and changes are on a terminal already."""
    session_id, cwd = conversation.session.id, conversation.place.cwd
    if arguments.output_format in ("json", "stream-json"):
        kind = {"type": "result"} if arguments.output_format == "stream-json" else {}
        print_json(kind | conversation.result_object(ended, warnings))
        return
    if arguments.json_schema is not None and ended.status in FINISHED:
        print_json(ended.structured)
    elif ended.result.strip() and not shown:
        _print_answer(arguments, ended.result.rstrip("\n"), plain=conversation.config.repl.plain)
    if ended.error:
        has_begun = ended.usage != Usage() or ended.status in ("interrupted", "timeout")
        way_on = f" `kode -r {session_id}` resumes it."
        complain(f"{ended.error}{way_on if session_id and has_begun else ''}")
    elif not (arguments.quiet or shown) and ended.files_changed:
        names = [one_line(paths.relative_path(path, cwd)) for path in ended.files_changed]
        say(f"changed: {', '.join(cut_list(names, 20))}", sys.stderr)


def _print_answer(arguments: argparse.Namespace, answer: str, *, plain: bool) -> None:
    """Prints the model's answer unchanged for a program, rendered as in the REPL for a person."""
    if not sys.stdout.isatty():
        print_line(answer)
        return
    from kode.cli.screen.render import Renderer

    screen = open_screen(no_color=arguments.no_color, plain=plain)
    Renderer(screen).show_answer(answer)
    screen.flush()
