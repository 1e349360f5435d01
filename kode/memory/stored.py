"""Reads memory's data back from disk: rows of JSON, valid or not at all, and texts that a person
may have edited. Also a queue of pending work, one file per item, under a lock."""

import asyncio
import contextlib
import functools
import hashlib
import json
import re
import time
from collections.abc import AsyncIterator, Hashable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from kode import durable
from kode.errors import BusyError, MemoryRefused

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def read_row(kind: type[T], data: bytes) -> T | None:
    """The value in `data`, or None for anything that kode would not have written: another shape,
    other types, a list too deep. Unknown keys of a later version are ignored."""
    try:
        row: T = _adapter(cast(Hashable, kind)).validate_json(data, strict=True)
    except ValueError:  # including pydantic's
        return None
    return row


def check_row(kind: type[T], row: Mapping[str, Any]) -> T:
    """The value of a row that a person may have written. Raises: MemoryRefused naming the field."""
    from pydantic import ValidationError

    try:
        value: T = _adapter(cast(Hashable, kind)).validate_json(json.dumps(row), strict=True)
    except ValidationError as error:
        fault = error.errors()[0]
        allowed = fault["msg"].removeprefix("Input should be ")
        raise MemoryRefused(
            f"`{fault['loc'][0]}` is {fault['input']!r}; it must be {allowed}"
        ) from None
    return value


def read_text(path: Path) -> str | None:
    """The text of a file with normalized line ends; None if it does not exist.

    Raises: MemoryRefused if it is not readable UTF-8 text.
    """
    try:
        return plain_lines(path.read_bytes().decode("utf-8-sig"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError as error:
        raise MemoryRefused(
            f"{path} is not UTF-8 text (byte {error.start}). It was left as it is: "
            "save it as UTF-8, or move it away."
        ) from error
    except OSError as error:
        raise MemoryRefused(
            f"{path} cannot be read ({error.strerror}). Check what it is and who owns it."
        ) from error


def read_import(path: Path, max_bytes: int) -> str:
    """The text of a file that a person imports. Raises: MemoryRefused if it is not readable UTF-8
    text of at most this size."""
    try:
        if path.stat().st_size > max_bytes:
            size = f"{max_bytes // 1_000_000} MB"
            raise MemoryRefused(f"{path} is larger than {size}. Import it in parts.")
        return path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise MemoryRefused(f"{path} is not UTF-8 text. Save it as UTF-8 and try again.") from error
    except OSError as error:
        raise MemoryRefused(
            f"{path} cannot be read ({error.strerror}). Check what it is and who owns it."
        ) from error


def stems(folder: Path) -> list[str]:
    """The names of the JSON files in a folder, sorted."""
    with suppress(OSError):
        return sorted(path.stem for path in folder.glob("*.json"))
    return []


def may_name_a_file(id: str | None) -> bool:
    """Whether a session id can be part of a file name: no path, nothing hidden."""
    return id is not None and _ID.fullmatch(id) is not None and ".." not in id


def version_of(text: str | None) -> str:
    """Identifies a version of a text; "" for a missing one."""
    return "" if text is None else hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]


def plain_lines(text: str) -> str:
    """The text with every line end normalized to a line feed."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


@functools.cache
def _adapter(kind: Hashable) -> "TypeAdapter[Any]":
    from pydantic import TypeAdapter

    return TypeAdapter(cast(Any, kind))


TIMEOUT_S = 10.0
"""The holder of the lock only writes one small file: a longer wait means that it hangs."""


@contextlib.asynccontextmanager
async def locked(folder: Path, *, timeout_s: float = TIMEOUT_S) -> AsyncIterator[None]:
    """Holds the exclusive lock of `folder`, across processes. The body must not await: that would
    block every other process, and a model is never called while a lock is held.

    Raises: BusyError after `timeout_s`; StorageError; CancelledError while waiting.
    """
    deadline = time.monotonic() + timeout_s
    pause_s = 0.001
    with contextlib.ExitStack() as stack:
        while True:
            try:
                stack.enter_context(durable.locked(folder, timeout_s=0.0))
                break
            except BusyError:
                if time.monotonic() > deadline:
                    raise durable.busy(folder, timeout_s) from None
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 1.5, 0.02)
        yield
