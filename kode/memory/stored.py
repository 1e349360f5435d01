"""What memory keeps on disk, read back: rows of JSON, whole and of the right types or not at all,
and texts that a person may have edited.

What is done about a damaged row (passed over, set aside, told) is its owner's business.
"""

import functools
import re
from collections.abc import Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from kode.errors import MemoryError_

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def read_row(kind: type[T], data: bytes) -> T | None:
    """The value that `data` holds, or None for anything that kode would not have written: another
    shape, other types, a list too deep. Keys of a later version are passed over."""
    try:
        row: T = _adapter(cast(Hashable, kind)).validate_json(data, strict=True)
    except ValueError:  # pydantic's is one
        return None
    return row


def read_text(path: Path) -> str | None:
    """The text of a file, its lines ended by line feeds; None when it is not there.

    Raises: MemoryError_ when it is no readable UTF-8 text.
    """
    try:
        return plain_lines(path.read_bytes().decode("utf-8-sig"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError as error:
        raise MemoryError_(
            f"{path} is not UTF-8 text (byte {error.start}). It was left as it is: "
            "save it as UTF-8, or move it away."
        ) from error
    except OSError as error:
        raise MemoryError_(
            f"{path} cannot be read ({error.strerror}). Check what it is and who owns it."
        ) from error


def may_name_a_file(id: str | None) -> bool:
    """Whether an id of a session can be part of a file's name: no path, nothing hidden."""
    return id is not None and _ID.fullmatch(id) is not None and ".." not in id


def plain_lines(text: str) -> str:
    """The text with every line end a line feed."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


@functools.cache
def _adapter(kind: Hashable) -> "TypeAdapter[Any]":
    from pydantic import TypeAdapter

    return TypeAdapter(cast(Any, kind))
