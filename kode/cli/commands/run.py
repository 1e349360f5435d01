"""`kode run`: one task, the answer on stdout, then exit. `kode continue TASK` and `kode -p` end
here too.
"""

import argparse
import asyncio
import contextlib
import os
import select
import signal
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kode.cli.flags import (
    add_conversation_flags,
    config_flags,
    started,
    working_directory,
)
from kode.cli.parser import Parser
from kode.cli.screen.lines import clean, one_line
from kode.cli.screen.output import (
    EXIT_CODES,
    print_line,
    relative_path,
    result_object,
    stream_printer,
    to_json,
)
from kode.errors import ConfigError, Interrupted, StorageError, UserError
from kode.events import Emit, Notice, TurnEnded, silent

if TYPE_CHECKING:
    from kode.conversation import Conversation
    from kode.extensions.mcp_values import Elicit
    from kode.messages import Text
    from kode.permissions.gate import Ask

MAX_STDIN_BYTES = 10 * 1024 * 1024
STDIN_HINT_AFTER_S = 3.0
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(argv: Sequence[str]) -> int:
    """Runs `kode run` with these arguments and returns its exit code."""
    parser = Parser("kode run", "One task, the answer on stdout, then exit.")
    parser.add_argument("task", nargs="?", metavar="TASK", help="the task; `-` reads stdin")
    add_conversation_flags(parser)
    arguments = parser.parse(argv)
    return run_task(arguments, arguments.task, session_id=None)


def run_task(arguments: argparse.Namespace, task: str | None, session_id: str | None) -> int:
    """Runs one task in a new session, or in the one named, and returns the exit code.

    Raises: UserError, SessionError or StorageError when it could not start.
    """
    return run_read_task(arguments, *read_task(task), session_id)


def run_read_task(
    arguments: argparse.Namespace,
    text: str,
    piped: "tuple[Text, ...]",
    session_id: str | None,
) -> int:
    """As `run_task`, for a text that was read, and what was piped in beside it."""
    if not text.strip():
        raise ConfigError(
            'There is no task. Give one in quotes, as `kode run "fix the failing test"`, '
            "or pipe it in."
        )
    return asyncio.run(_run(arguments, text, piped, session_id))


async def _run(
    arguments: argparse.Namespace, text: str, piped: "tuple[Text, ...]", session_id: str | None
) -> int:
    from kode.config import load_config
    from kode.conversation import open_conversation
    from kode.paths import home
    from kode.providers import warm_up

    cwd = working_directory(arguments)
    loaded = load_config(home(), cwd, environ=os.environ, flags=config_flags(arguments))
    emit, ask, elicit = _faces(arguments, plain=loaded.config.repl.plain)
    attached = read_attachments(arguments.ctx, cwd, loaded.config.roots(cwd), emit)
    conversation = await open_conversation(
        loaded,
        cwd=cwd,
        emit=emit,
        ask=ask,
        session_id=session_id,
        keep_session=not arguments.no_session,
        attachments=(*attached, *piped),
        elicit=elicit,
        trust_project=arguments.trust_project,
    )
    try:
        attach_named(conversation, arguments.ctx, arguments.task)
        warm_up(conversation.agent.provider.name)
        started()
        task = asyncio.ensure_future(conversation.turn(text))
        with _cancelled_by_signals(task):
            ended = await _ended(task)
        extensions = conversation.extensions
        untrusted = extensions.untrusted if extensions is not None else ()
        plain = loaded.config.repl.plain
        _print_result(arguments, ended, conversation.session.id, cwd, untrusted, plain=plain)
    finally:
        closing = asyncio.ensure_future(conversation.close())
        with _cancelled_by_signals(closing), contextlib.suppress(asyncio.CancelledError):
            # Interrupted, memory leaves its work for the next start.
            await closing
    return EXIT_CODES[ended.status]


async def _ended(task: "asyncio.Future[TurnEnded]") -> TurnEnded:
    """The end of a turn; one that was stopped before it had begun was interrupted too.

    Raises: UserError when the task could not even be recorded.
    """
    from kode.conversation.opening import not_kept

    try:
        return await task
    except StorageError as error:  # raised only where nothing was done yet
        raise not_kept(error) from error
    except asyncio.CancelledError:
        return TurnEnded(status="interrupted", error="Interrupted before the turn began.")


def read_task(task: str | None) -> "tuple[str, tuple[Text, ...]]":
    """The task's text, and what goes with it: the text is the argument, or stdin where there is
    none, it is empty or `-`. Beside an argument, stdin is text from outside. From here on signals
    interrupt in good order."""
    _interrupted_by_signals()
    if task is None or task == "-" or not task.strip():
        nobody_typed = sys.stdin is None or (sys.stdin.isatty() and task != "-")
        return "" if nobody_typed else _read_stdin(), ()
    if sys.stdin is None or not _stdin_has_something_to_say():
        return task, ()
    from kode.engine.fence import fenced
    from kode.messages import Text

    extra = _read_stdin()
    # Somebody else's text: it must not be able to end, and go on as the task.
    piped = Text(text=fenced(extra, "standard input"), source="outside")
    return task, (piped,) if extra.strip() else ()


def attach_named(
    conversation: "Conversation", names: Sequence[str], task: str | None = None
) -> None:
    """Lets the pictures of `--ctx`, and the pictures and folders named after `@` in TASK, go with
    the first turn. What was piped in is somebody else's text and names none.

    Raises: UserError for one of `--ctx` that cannot be shown; of the others a notice tells.
    """
    from kode.cli.prompt.folders import mentioned_folders
    from kode.cli.prompt.pictures import mentioned_pictures
    from kode.pictures import fitting, read_picture

    for name in _names(names):
        picture = read_picture(conversation.cwd / Path(name).expanduser())
        if picture is not None:
            conversation.attach_picture(picture.name, fitting(picture).data)
    for picture in mentioned_pictures(task or "", conversation.cwd):
        try:
            conversation.attach_picture(picture.name, fitting(picture).data)
        except UserError as error:
            conversation.emit(Notice(text=str(error)))
    for folder in mentioned_folders(task or "", conversation.cwd):
        conversation.attachments += (folder.text,)


def _names(groups: Sequence[str]) -> Iterator[str]:
    return (name.strip() for group in groups for name in group.split(",") if name.strip())


def read_attachments(
    names: Sequence[str], cwd: Path, roots: Sequence[Path], emit: Emit
) -> tuple["Text", ...]:
    """The text files of `--ctx`, and lists of its folders, as parts of the first message; pictures
    are `attach_named`. What is in none of `roots` is text from outside, and so is what a session
    that had read such text left in a file.

    Raises: ConfigError for one that is missing, too large, or neither text nor a picture.
    """
    from kode.cli.prompt.folders import read_folder
    from kode.conversation.attachments import attached, part_of, read_text
    from kode.paths import home
    from kode.pictures import read_picture
    from kode.session.marks import Marks

    marks = Marks(home=home(), folders=(cwd, *roots), source=lambda: "", emit=emit)
    parts = []
    for name in _names(names):
        path = cwd / Path(name).expanduser()
        if read_picture(path) is not None:
            continue
        if folder := read_folder(name, path):
            parts.append(part_of(folder.text.text, path, roots, marks))
            continue
        try:
            parts.append(attached(name, read_text(path), path, roots, marks))
        except UserError as error:
            raise ConfigError(f"--ctx {name}: {error}") from error
    return tuple(parts)


def _stdin_has_something_to_say() -> bool:
    """Whether stdin is a pipe, a file or a socket rather than a terminal or a closed stream."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _read_stdin() -> str:
    with contextlib.suppress(OSError, ValueError):
        ready, _, _ = select.select([sys.stdin], [], [], STDIN_HINT_AFTER_S)
        if not ready:
            print("kode: waiting for standard input to end (or use </dev/null)", file=sys.stderr)
    try:
        data = sys.stdin.buffer.read(MAX_STDIN_BYTES + 1)
    except KeyboardInterrupt:
        raise Interrupted(
            "Interrupted while reading standard input. Nothing was started."
        ) from None
    if len(data) > MAX_STDIN_BYTES:
        raise ConfigError("Standard input is larger than 10 MB. Put it in a file and name that.")
    return data.decode("utf-8", errors="replace")


def _faces(
    arguments: argparse.Namespace, *, plain: bool
) -> "tuple[Emit, Ask | None, Elicit | None]":
    """What shows the events, and what asks the person: at a terminal, and not when the output is
    for a program."""
    if arguments.output_format == "stream-json":
        return stream_printer(), None, None
    if arguments.output_format == "json":
        return silent, None, None
    from kode.cli.screen.form import make_elicit
    from kode.cli.screen.question import make_ask
    from kode.cli.screen.run_render import ProgressRenderer

    progress = ProgressRenderer(
        verbose=arguments.verbose,
        no_color=arguments.no_color,
        live=not arguments.quiet,
        plain=plain,
    )
    asked = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    # One screen for both: a question must not be painted over.
    emit = silent if arguments.quiet else progress.emit
    if not asked:
        return emit, None, None
    return emit, make_ask(progress.screen), make_elicit(progress.screen)


def _print_result(
    arguments: argparse.Namespace,
    ended: TurnEnded,
    session_id: str | None,
    cwd: Path,
    untrusted: tuple[str, ...],
    *,
    plain: bool,
) -> None:
    match arguments.output_format:
        case "json":
            print_line(to_json(result_object(ended, session_id, cwd, untrusted)))
        case "stream-json":
            whole = result_object(ended, session_id, cwd, untrusted)
            print_line(to_json({"type": "result", **whole}))
        case _:
            if ended.result.strip():
                _print_answer(arguments, ended.result.rstrip("\n"), plain=plain)
            if ended.error:
                error = clean(f"kode: {ended.error}{_way_on(ended, session_id)}")
                print(error, file=sys.stderr)
            elif not arguments.quiet and ended.files_changed:
                names = ", ".join(
                    one_line(relative_path(path, cwd)) for path in ended.files_changed
                )
                print(f"changed: {names}", file=sys.stderr)


def _print_answer(arguments: argparse.Namespace, answer: str, *, plain: bool) -> None:
    """A program gets what the model said as it is; a person reads it as in the REPL."""
    if not sys.stdout.isatty():
        print_line(answer)
        return
    from kode.cli.screen.render import Renderer
    from kode.cli.screen.screen import open_screen

    screen = open_screen(color=False if arguments.no_color else None, plain=plain)
    Renderer(screen).show_answer(answer)
    screen.flush()


def _way_on(ended: TurnEnded, session_id: str | None) -> str:
    if ended.status not in ("interrupted", "timeout") or session_id is None:
        return ""
    return f" Progress is saved: `kode continue --id {session_id}` resumes it."


def _interrupted_by_signals() -> None:
    """Before there is a turn SIGTERM and SIGHUP end kode as Ctrl-C does: with a word about it, in
    the format asked for."""
    for number in _heeded():
        if number != signal.SIGINT:
            signal.signal(number, signal.default_int_handler)


def _heeded() -> list[signal.Signals]:
    """SIGHUP stays ignored where whoever started kode wants that (`nohup`)."""
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [number for number in SIGNALS if number != signal.SIGHUP or not ignored]


@contextlib.contextmanager
def _cancelled_by_signals(task: "asyncio.Future[Any]") -> Iterator[None]:
    """SIGINT, SIGTERM and SIGHUP end the turn, which saves what there is; so does a second one."""
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in _heeded()}
    for number in before:
        loop.add_signal_handler(number, task.cancel)
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
