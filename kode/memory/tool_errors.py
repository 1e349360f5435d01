"""How the model hears of what memory could not do: the tools of all systems tell it alike."""

import contextlib
from collections.abc import Iterator

from kode.errors import BusyError, MemoryError_, StorageError, ToolError


@contextlib.contextmanager
def told_to_model() -> Iterator[None]:
    """Around what a tool asks of memory. Raises: ToolError with the same text."""
    try:
        yield
    except (MemoryError_, StorageError, BusyError) as error:
        raise ToolError(str(error)) from error
