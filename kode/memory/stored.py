"""Rows that memory keeps as JSON, read back: whole and of the right types, or not at all.

What is done about a damaged one (passed over, set aside, told) is its owner's business.
"""

import functools
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")


def read_row(kind: type[T], data: bytes) -> T | None:
    """The value that `data` holds, or None for anything that kode would not have written: another
    shape, other types, a list too deep. Keys of a later version are passed over."""
    try:
        row: T = _adapter(cast(Hashable, kind)).validate_json(data, strict=True)
    except ValueError:  # pydantic's is one
        return None
    return row


@functools.cache
def _adapter(kind: Hashable) -> "TypeAdapter[Any]":
    from pydantic import TypeAdapter

    return TypeAdapter(cast(Any, kind))
