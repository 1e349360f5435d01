"""Reads the input of `kode run`: the task, piped and attached texts, and the schema for its
answer."""

import argparse
import contextlib
import json
import os
import select
import signal
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kode import paths
from kode.cli.flags import read_servers, working_directory
from kode.cli.screen.printer import complain
from kode.errors import ConfigError, Interrupted, Setting, UserError
from kode.events import Emit, Notice
from kode.images import Picture, read_picture
from kode.messages import Text
from kode.plain_text import fence_text
from kode.process import SIGNALS
from kode.values import replace

if TYPE_CHECKING:
    from kode.conversation import Conversation, Settings
    from kode.conversation.structured import Form
    from kode.provider import Provider

MAX_STDIN_BYTES = 10 * 1024 * 1024  # more than any window holds
CTX = Setting("ctx", "--ctx")
STDIN_WAIT_S = 3.0
"""A pipe that carries text for the task has begun to by then. Some programs start kode with an open
pipe as its standard input, write nothing to it, and never close it."""


def interrupt_by_signals() -> None:
    """Makes SIGTERM and SIGHUP raise KeyboardInterrupt, as Ctrl-C does before a turn."""
    for number in SIGNALS[1:]:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)


def read_task(task: str | None) -> "tuple[str, tuple[Text, ...]]":
    """Returns the task's text, and the texts sent with it. The text is the argument, or stdin if
    that is missing, blank or `-`. With an argument, stdin is outside text, unless nothing comes on
    it within `STDIN_WAIT_S`. From here on, signals interrupt in good order."""
    interrupt_by_signals()
    if task is None or task == "-" or not task.strip():
        nobody_typed = sys.stdin is None or (sys.stdin.isatty() and task != "-")
        return "" if nobody_typed else _read_stdin(), ()
    if sys.stdin is None or not _is_stdin_redirected():
        return task, ()
    if not _is_readable_soon():
        complain(
            f"nothing came on standard input in {STDIN_WAIT_S:g} s; the task starts without it. "
            "Give what takes longer as a file: --ctx FILE."
        )
        return task, ()
    extra = _read_stdin()
    # Somebody else's text: it must not be able to end its fence and continue as the task.
    piped = Text(text=fence_text(extra, "standard input"), source="outside")
    return task, (piped,) if extra.strip() else ()


async def open_from_flags(
    arguments: argparse.Namespace,
    settings: "Settings",
    session_id: str | None,
    *,
    task: str = "",
    piped: "Sequence[Text]" = (),
    provider: "Provider | None" = None,
) -> "Conversation":
    """Opens the conversation that the flags of `kode run` or of the prompt ask for; `settings` say
    how it shows events and asks. Images that the flags or the task name go with the first turn;
    names in piped text do not count, because others wrote it. Raises: KodeError."""
    from kode.conversation import open_conversation

    if arguments.no_session and (arguments.session_id or arguments.name):
        raise ConfigError("--session-id and --name are of no use with --no-session. Drop one.")
    cwd = working_directory(arguments)
    texts, pictures = read_attachments(
        arguments.ctx, cwd, settings.config.roots(cwd), settings.emit
    )
    conversation = await open_conversation(
        replace(
            settings,
            keep_session=not arguments.no_session,
            trust_project=arguments.trust_project,
            servers=read_servers(arguments, cwd),
        ),
        cwd=cwd,
        session_id=session_id,
        new_id=arguments.session_id,
        task=task,
        attachments=(*texts, *piped),
        provider=provider,
    )
    try:
        if arguments.name:
            conversation.session.give_name(arguments.name)
        conversation.attachments += [conversation.keep_picture(it.name, it.data) for it in pictures]
        named = (arguments.task or "") if task else ""
        if "@" in named:
            from kode.cli.prompt.attach import attach_to_next_turn

            def report(text: str, style: str) -> None:
                settings.emit(Notice(text=text, level="warning" if style == "warning" else "info"))

            await attach_to_next_turn(conversation, named, (), report)
    except BaseException:
        await conversation.close(interrupted=True)
        raise
    return conversation


def read_attachments(
    groups: Sequence[str], cwd: Path, roots: Sequence[Path], emit: Emit
) -> "tuple[list[Text], list[Picture]]":
    """Reads the text files of `--ctx` as parts of the first message, and its images. A group is
    split at commas unless the whole of it names a file. A file outside all `roots` is outside text,
    and so is one written by a session that had read such text.

    Raises: ConfigError for one that is missing, too large, or neither text nor an image.
    """
    texts, pictures = list["Text"](), list["Picture"]()
    if not groups:
        return texts, pictures
    from kode.conversation.turns import file_part, read_text
    from kode.session.provenance import Provenance

    marks = Provenance(home=paths.kode_home(), folders=(cwd, *roots), source=lambda: "", emit=emit)
    for group in groups:
        is_one = os.path.exists(cwd / paths.expand_path(group))
        for name in filter(None, map(str.strip, [group] if is_one else group.split(","))):
            path = cwd / paths.expand_path(name)
            if picture := read_picture(path):
                pictures.append(picture)
            else:
                try:
                    texts.append(file_part(name, read_text(path), path, roots, marks))
                except UserError as error:
                    raise ConfigError(f"--ctx {name}: {error}").about(CTX) from error
    return texts, pictures


def _is_stdin_redirected() -> bool:
    """Whether stdin is a pipe, a file or a socket rather than a terminal or a closed stream."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _is_readable_soon() -> bool:
    """Whether stdin has something to read, or has ended, within `STDIN_WAIT_S`."""
    with contextlib.suppress(OSError, ValueError):
        return bool(select.select([sys.stdin], [], [], STDIN_WAIT_S)[0])
    return True


def _read_stdin() -> str:
    if not _is_readable_soon():
        complain("waiting for standard input to end (or use </dev/null)")
    try:
        data = sys.stdin.buffer.read(MAX_STDIN_BYTES + 1)
    except KeyboardInterrupt:
        raise Interrupted("Interrupted while reading standard input.") from None
    if len(data) > MAX_STDIN_BYTES or b"\0" in data:
        raise ConfigError(
            "Standard input must be text, at most 10 MB. Attach a file or an image with --ctx FILE."
        )
    return data.decode("utf-8", errors="replace")


def read_answer_form(arguments: argparse.Namespace, cwd: Path) -> "Form | None":
    """The form of `--json-schema`: a file, or the schema itself. Raises: ConfigError."""
    source = arguments.json_schema
    if source is None:
        return None
    from kode.conversation.structured import form_of_schema
    from kode.conversation.turns import read_text

    flag, text = Setting("json-schema", "--json-schema"), source
    try:
        if not source.lstrip().startswith("{"):
            text = read_text(cwd / paths.expand_path(source)).removeprefix("\ufeff")
        schema = json.loads(text)
    except UserError as error:
        raise ConfigError(f"{source}: {error}").about(flag) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"The schema is not JSON: {error}.").about(flag) from None
    return form_of_schema(schema, flag.source)
