"""Shared by the file tools: resolves paths, checks access, decodes and writes text.

Nothing here asks a person: the gate decides whether a call runs. Some things are refused in every
mode: writing to a protected folder, and reading the secrets in one.
"""

import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO

from kode import beneath, durable, paths
from kode.errors import StorageError, ToolError
from kode.plain_text import Encoding, detect_encoding, escape_path
from kode.tool import ToolContext
from kode.values import Value
from kode.workplace import real_path, to_command

MAX_WHOLE_BYTES = 20 * 1024 * 1024
"""The largest file that is read in full, to be edited or replaced."""

SNIFF_BYTES = 65536  # binary files have a null byte sooner

UTF8 = Encoding(codec="utf-8")

_CONTROLS = bytes({*range(0x20), 0x7F} - set(b"\t\n\r\f\b\x1b"))


class FileText(Value):
    """A text file as it was on disk at one moment."""

    path: Path
    name: str
    """The path as results show it."""
    data: bytes = b""
    text: str = ""
    """Decoded, without the byte order mark; original line ends."""
    encoding: Encoding = UTF8
    is_new: bool = False
    """Whether it is yet to be created."""


class Binary(Exception):
    """The bytes are not text; the message says why."""


def resolve(context: ToolContext, path: str) -> Path:
    """Resolves a tool argument to a real absolute path: `~` expanded, relative to the working
    directory, every symlink resolved as far as the path exists.

    Raises: ToolError for an empty path, one with a NUL, one that the system cannot look up (a name
        too long, a folder that may not be searched), and one that leads to another file than the
        gate judged.
    """
    if not path.strip():
        raise ToolError("The path is empty: give one, relative to the working directory.")
    if "\0" in path:
        raise ToolError("The path has a NUL character in it: give the path as the system has it.")
    try:
        real = real_path(context.place, path)
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.stat(real)
    except (OSError, ValueError) as error:
        raise ToolError(f"The path {path[:200]!r} cannot be used ({error.args[-1]}).") from None
    if context.path and real != context.path:
        raise _link_error(path)
    return Path(real)


def resolve_tree(context: ToolContext, path: str) -> Path:
    """Resolves a file or folder to walk through.

    Raises: ToolError as `resolve`, for a missing one, and in `/tmp` while a background command
        runs: it could put a link in the way of the program that walks, which would not notice.
    """
    real, background = resolve(context, path), context.background
    if background is not None and background.list_running() and _is_in_tmp(context, real):
        raise ToolError(
            "A command in the background may change /tmp meanwhile, so only single files are read "
            "there: search or list it with a shell command, or stop the one in the background."
        )
    if not real.exists():
        raise _explain_missing(context, real)
    if not os.access(real, os.R_OK):
        raise ToolError(f"{display_path(context, real)} may not be read by this user.")
    return real


def _link_error(path: str) -> ToolError:
    return ToolError(
        f"{escape_path(path)} came to mean another file while the call was on its way: a link was "
        "changed. Nothing was read or written; look what it is now, and try again."
    )


def display_path(context: ToolContext, path: Path) -> str:
    """A path as results show it: relative to the working directory if inside, with control
    characters escaped."""
    base = paths.real_path(context.place.cwd)
    text = to_command(context.place, str(path))
    return escape_path(text.removeprefix(base.rstrip("/") + "/") or text)


def find_outside_source(context: ToolContext, path: Path) -> str:
    """The path if it lies outside the session's working folders, as the source of untrusted text;
    else "". kode's own saved outputs and the session's `/tmp` count as inside."""
    roots = (*(context.place.roots or (context.place.cwd,)), context.place.outputs)
    is_inside = _is_in_tmp(context, path) or any(_is_inside(path, root) for root in roots)
    return "" if is_inside else str(path)


def refuse_protected(context: ToolContext, path: Path) -> None:
    """Raises: ToolError if writing `path` would change a protected folder."""
    for folder in context.place.protected:
        if _is_inside(path, folder) and not _is_in_tmp(context, path):
            raise ToolError(
                f"{escape_path(str(path))} is inside {escape_path(str(folder))}, which belongs to "
                "kode: file tools never write there. Use the memory tools for what should be "
                "remembered, or write inside the project."
            )


def is_secret(context: ToolContext, path: Path) -> bool:
    """Whether no tool may read a file because it holds keys: kode's config, a process's
    environment."""
    is_environment = re.fullmatch(r"/proc/[^/]+(/task/[^/]+)?/environ", str(path)) is not None
    is_config = path.name.casefold().startswith("config.json")
    return is_environment or (
        not _is_in_tmp(context, path)
        and any(
            (is_config and _is_inside(path, folder)) or _is_same_file(path, folder / "config.json")
            for folder in context.place.protected
        )
    )


def refuse_secret(context: ToolContext, path: Path) -> None:
    """Raises: ToolError for a file that `is_secret`."""
    if is_secret(context, path):
        raise ToolError(
            f"{display_path(context, path)} holds secrets and is never read. "
            "Ask the person for the setting you need."
        )


def _is_in_tmp(context: ToolContext, path: Path) -> bool:
    """Whether a real path is in the session's own `/tmp`, wherever that lies."""
    return to_command(context.place, str(path)) != str(path)


def _is_inside(path: Path, folder: Path) -> bool:
    """Whether a real path is a folder or inside it, also in another spelling on a case-insensitive
    file system."""
    real, above = Path(paths.real_path(folder)), (path, *path.parents)
    if real in above or real.exists():
        return real in above or any(map(partial(_is_same_file, real), above))
    return str(real).casefold() in [str(each).casefold() for each in above]


def _is_same_file(path: Path, other: Path) -> bool:
    try:
        return os.path.samefile(path, other)
    except (OSError, ValueError):
        return False


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether an absolute path, without following links, names the open file."""
    with contextlib.suppress(OSError), beneath.open_folder(path.parent) as folder:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path.name, dir_fd=folder))
    return False


@contextlib.contextmanager
def open_regular(context: ToolContext, path: Path) -> Iterator[IO[bytes]]:
    """Opens an existing regular file for reading.

    Raises: ToolError if it is missing, a folder, a device or pipe, unreadable or `is_secret`; an
        OSError while it is open is converted, too.
    """
    refuse_secret(context, path)
    name = partial(display_path, context, path)
    try:
        # Without O_NONBLOCK, opening a pipe would wait for a writer.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
        with open(path, "rb", opener=lambda path, _: os.open(path, flags)) as file:
            status = os.fstat(file.fileno())
            if status.st_nlink and not _is_at(file.fileno(), path):
                raise _link_error(str(path))
            if not stat.S_ISREG(status.st_mode):
                raise ToolError(f"{name()} is a device, a pipe or a socket, not a file to read.")
            yield file
    except (FileNotFoundError, NotADirectoryError):
        raise _explain_missing(context, path) from None
    except IsADirectoryError:
        raise ToolError(f"{name()} is a folder: list it to see its files.") from None
    except OSError as error:
        raise ToolError(
            f"{name()} could not be read: {error.strerror}. "
            "Check its permissions, or use another file."
        ) from None


def _explain_missing(context: ToolContext, path: Path) -> ToolError:
    """The error for a missing file, listing the most similar names."""
    import difflib
    from unicodedata import normalize

    folder = next(parent for parent in path.parents if parent.is_dir())
    name = path.relative_to(folder).parts[0]
    names: dict[str, str] = {}
    with contextlib.suppress(OSError):
        names = {name.casefold(): name for name in sorted(os.listdir(folder))[4999::-1]}
    matches = difflib.get_close_matches(name.casefold(), names, n=3, cutoff=0.6)
    near = [display_path(context, folder / names[match]) for match in matches]
    what = display_path(context, path)
    if folder != path.parent:
        what += f" (there is no folder {display_path(context, folder / name)})"
    hint = f"Did you mean {' or '.join(near)}?" if near else "List the folder to find it."
    if normalize("NFC", what) in [normalize("NFC", name) for name in near]:
        hint = "A name there looks the same: use a shell command and a pattern, such as `cat caf*`."
    # Names from outside are outside text too.
    untrusted = find_outside_source(context, folder) if near else ""
    return ToolError(f"There is no file {what}. {hint}", untrusted=untrusted)


def read_whole(context: ToolContext, path: Path) -> FileText:
    """Reads a text file in full. Raises: ToolError as `open_regular`, and for binaries and files
    over 20 MB."""
    name = display_path(context, path)
    with open_regular(context, path) as file:
        data = file.read(MAX_WHOLE_BYTES + 1)
    refuse_large(name, len(data))
    try:
        text, encoding = decode_text(data)
    except Binary as reason:
        raise ToolError(
            f"{name} is not a text file ({reason}): the file tools change text only. "
            "Use a shell command that knows its format."
        ) from None
    return FileText(path=path, name=name, data=data, text=text, encoding=encoding)


def refuse_large(name: str, size: int) -> None:
    """Raises: ToolError if `size`, in bytes, exceeds the file tools' limit."""
    if size > MAX_WHOLE_BYTES:
        raise ToolError(
            f"{name} has more than the {MAX_WHOLE_BYTES:,} bytes that the file tools read: use a "
            "shell command (grep, sed -n 1,200p, a script)."
        )


def content_hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def require_seen(context: ToolContext, file: FileText) -> None:
    """Raises: ToolError unless the model has seen the current content of the file."""
    seen = context.seen_files.get(str(file.path))
    if seen == content_hash(file.data):
        return
    advice = (
        "has changed since it was last read: read it again with read_file, then make the change"
    )
    if seen is None:
        advice = "has not been read in this session: read it with read_file first"
    raise ToolError(f"{file.name} {advice}. Nothing was written.")


def decode_text(data: bytes) -> tuple[str, Encoding]:
    """Decodes by byte order mark, else as UTF-8, else as Latin-1. Encoding the result gives the
    same bytes.

    Raises: Binary, judged by content: NUL bytes, many control characters, broken UTF-16.
    """
    if encoding := detect_encoding(data):
        try:
            return data[len(encoding.bom) :].decode(encoding.codec), encoding
        except UnicodeDecodeError:
            raise Binary(f"its byte order mark says {encoding.codec}, its bytes do not") from None
    if b"\0" in data:
        raise Binary("it has NUL bytes")
    try:
        text, codec, tolerated = data.decode("utf-8"), "utf-8", 0.3
    except UnicodeDecodeError:
        text, codec, tolerated = data.decode("latin-1"), "latin-1", 0.02
    head = data[:SNIFF_BYTES]
    if len(head) - len(head.translate(None, _CONTROLS)) > tolerated * len(head):
        raise Binary("it has many control characters")
    return text, Encoding(codec=codec)


def encode_text(text: str, encoding: Encoding, name: str) -> bytes:
    """The bytes of a text. Raises: ToolError for characters that the encoding lacks."""
    try:
        return encoding.bom + text.encode(encoding.codec)
    except UnicodeEncodeError as error:
        bad = text[error.start]
        raise ToolError(
            f"{name} is encoded as {encoding.codec}, which has no character U+{ord(bad):04X}: "
            "leave it out or write it as an escape. Nothing was written."
        ) from None


def write_file(context: ToolContext, path: Path, data: bytes) -> list[str]:
    """Replaces the file atomically, keeping its mode and owner, and records that the model knows
    its content. Returns sentences on what else the model must know. Other hard links to the file
    keep the old content: they may lie where nothing may be changed.

    Raises: ToolError; then the old file is untouched.
    """
    me = owner = (os.geteuid(), os.getegid())
    os.umask(umask := os.umask(0o077))
    mode, names = 0o666 & ~umask, 1
    with contextlib.suppress(OSError):
        status = os.stat(path)
        owner, mode = (status.st_uid, status.st_gid), stat.S_IMODE(status.st_mode)
        names = status.st_nlink
        if not os.access(path, os.W_OK):
            raise ToolError(
                f"{display_path(context, path)} is read-only for this user: ask the person before "
                "changing its mode. Nothing was written."
            )
    try:
        with beneath.open_folder(path.parent, make=beneath.folder_mode):
            pass  # the folder exists now, and no link leads elsewhere
        durable.sync_names(path.parent)
        durable.remove_stale_temporaries(path.parent)
        in_place = durable.replace_content(path, data, mode=mode)
    except (StorageError, OSError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        reason = cause.strerror if isinstance(cause, OSError) else str(error)
        raise ToolError(
            f"{display_path(context, path)} could not be written: {reason}. Nothing was changed: "
            "check the folder's permissions and free space, or write elsewhere."
        ) from error
    if owner != me:
        flags = os.O_RDONLY | os.O_NOFOLLOW
        with contextlib.suppress(OSError), open(os.open(path, flags), "rb") as file:
            if _is_at(file.fileno(), path):
                os.fchown(file.fileno(), *owner)
                os.fchmod(file.fileno(), mode)
    context.seen_files[str(path)] = content_hash(data)
    if in_place:
        return ["It was written in place: no other file can be put where it is."]
    return [f"Other hard links to it ({names - 1}) keep the old content."] if names > 1 else []


def delete_file(context: ToolContext, file: FileText) -> None:
    """Deletes the file. Raises: ToolError; then the file is still there."""
    try:
        with beneath.open_folder(file.path.parent) as folder:
            os.unlink(file.path.name, dir_fd=folder)
    except OSError as error:
        raise ToolError(f"{file.name} could not be deleted: {error.strerror}.") from None
    context.seen_files.pop(str(file.path), None)
