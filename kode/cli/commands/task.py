"""The input of `kode run`: the task's text, piped and attached texts, and the schema for its
answer."""

import argparse
import contextlib
import json
import os
import select
import stat
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kode import paths
from kode.cli.flags import named_servers, working_directory
from kode.errors import ConfigError, Interrupted, Setting, UserError
from kode.events import Emit, Notice
from kode.process_end import interrupt_by_signals

if TYPE_CHECKING:
    from kode.conversation import Conversation, Settings
    from kode.conversation.structured import Form
    from kode.messages import Text
    from kode.provider import Provider

MAX_STDIN_BYTES = 10 * 1024 * 1024  # more than any window holds
CTX = Setting("ctx", "--ctx")
STDIN_WAIT_S = 3.0
"""A pipe that gives something beside a task has begun by then. Programs that start kode and leave
an open pipe as its standard input never would, nor close it."""


def read_task(task: str | None) -> "tuple[str, tuple[Text, ...]]":
    """The task's text, and the texts sent with it: the text is the argument, or stdin if that is
    missing, empty or `-`. With an argument, stdin is outside text, unless nothing comes on it for
    a while. From here on signals interrupt in good order."""
    interrupt_by_signals()
    if task is None or task == "-" or not task.strip():
        nobody_typed = sys.stdin is None or (sys.stdin.isatty() and task != "-")
        return "" if nobody_typed else _read_stdin(), ()
    if sys.stdin is None or not _stdin_has_something_to_say():
        return task, ()
    from kode.messages import Text
    from kode.plain_text import fence_text

    if not _begins_soon():
        print(
            f"kode: nothing came on standard input in {STDIN_WAIT_S:g} s; the task starts "
            "without it. Give what takes longer as a file: --ctx FILE.",
            file=sys.stderr,
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
    how it shows and asks. Images and folders that the flags and TASK name go with the first turn.
    Raises: KodeError."""
    from kode.conversation import open_conversation

    cwd = working_directory(arguments)
    roots = settings.config.roots(cwd)
    settings = replace(
        settings,
        keep_session=not arguments.no_session,
        trust_project=arguments.trust_project,
        servers=named_servers(arguments, cwd),
    )
    attached = read_attachments(arguments.ctx, cwd, roots, settings.emit)
    conversation = await open_conversation(
        settings,
        cwd=cwd,
        session_id=session_id,
        new_id=getattr(arguments, "session_id", None),
        task=task,
        attachments=(*attached, *piped),
        provider=provider,
    )
    try:
        _attach_named(conversation, arguments.ctx, arguments.task if task else None)
    except BaseException:
        await conversation.close(interrupted=True)
        raise
    return conversation


def _attach_named(
    conversation: "Conversation", names: Sequence[str], task: str | None = None
) -> None:
    """Attaches the images of `--ctx`, and the images and folders that TASK names after `@`, to the
    first turn. Piped text is somebody else's, so names in it do not count.

    Raises: UserError for one of `--ctx` that cannot be shown; the others get a notice.
    """
    if not names and "@" not in (task or ""):
        return
    from kode.cli.prompt.attach import read_mentioned
    from kode.images import read_picture

    for name in _names(names, conversation.place.cwd):
        picture = read_picture(conversation.place.cwd / paths.expand(name))
        if picture is not None:
            image = conversation.keep_picture(picture.name, picture.data)
            conversation.attachments.append(image)
    mentioned, folders = read_mentioned(task or "", conversation.place.cwd)
    for picture in mentioned:
        try:
            image = conversation.keep_picture(picture.name, picture.data)
            conversation.attachments.append(image)
        except UserError as error:
            conversation.settings.emit(Notice(text=str(error)))
    for folder in folders:
        conversation.attachments.append(folder.text)


def _names(groups: Sequence[str], cwd: Path) -> Iterator[str]:
    """The names of `--ctx`. A group that names a file as a whole is one name, commas and all."""
    for group in groups:
        names = [group] if os.path.exists(cwd / paths.expand(group)) else group.split(",")
        yield from (name.strip() for name in names if name.strip())


def read_attachments(
    names: Sequence[str], cwd: Path, roots: Sequence[Path], emit: Emit
) -> tuple["Text", ...]:
    """Reads the text files of `--ctx`, and lists its folders, as parts of the first message;
    `_attach_named` handles images. A file in none of `roots` is outside text, and so is one written
    by a session that had read such text.

    Raises: ConfigError for one that is missing, too large, or neither text nor an image.
    """
    if not names:
        return ()
    from kode.cli.prompt.attach import read_folder
    from kode.conversation.turns import file_part, read_text, text_part
    from kode.images import read_picture
    from kode.session.provenance import Provenance

    marks = Provenance(home=paths.home(), folders=(cwd, *roots), source=lambda: "", emit=emit)
    parts = []
    for name in _names(names, cwd):
        path = cwd / paths.expand(name)
        if read_picture(path) is not None:
            continue
        if folder := read_folder(name, path):
            parts.append(text_part(folder.text.text, path, roots, marks))
            continue
        try:
            parts.append(file_part(name, read_text(path), path, roots, marks))
        except UserError as error:
            raise ConfigError(f"--ctx {name}: {error}").about(CTX) from error
    return tuple(parts)


def _stdin_has_something_to_say() -> bool:
    """Whether stdin is a pipe, a file or a socket rather than a terminal or a closed stream."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _begins_soon() -> bool:
    """Whether stdin has something to read, or has ended, within `STDIN_WAIT_S`."""
    with contextlib.suppress(OSError, ValueError):
        return bool(select.select([sys.stdin], [], [], STDIN_WAIT_S)[0])
    return True


def _read_stdin() -> str:
    if not _begins_soon():
        print("kode: waiting for standard input to end (or use </dev/null)", file=sys.stderr)
    try:
        data = sys.stdin.buffer.read(MAX_STDIN_BYTES + 1)
    except KeyboardInterrupt:
        raise Interrupted(
            "Interrupted while reading standard input. Nothing was started."
        ) from None
    if len(data) > MAX_STDIN_BYTES or b"\0" in data:
        raise ConfigError(
            "Standard input must be text, at most 10 MB. Attach a file or an image with --ctx FILE."
        )
    return data.decode("utf-8", errors="replace")


def answer_form(arguments: argparse.Namespace, cwd: Path) -> "Form | None":
    """The form that `--json-schema` requires: it names a file, or is the schema itself.

    Raises: ConfigError.
    """
    source = arguments.json_schema
    if source is None:
        return None
    from kode.conversation.structured import form_of_schema
    from kode.conversation.turns import read_text

    flag, text = Setting("json-schema", "--json-schema"), source
    try:
        if not source.lstrip().startswith("{"):
            text = read_text(cwd / paths.expand(source)).removeprefix("\ufeff")
        schema = json.loads(text)
    except UserError as error:
        raise ConfigError(f"{source}: {error}").about(flag) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"The schema is not JSON: {error}.").about(flag) from None
    return form_of_schema(schema, flag.source)
