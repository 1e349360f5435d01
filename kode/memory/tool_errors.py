"""How the model hears of what memory could not do: the tools of all systems tell it alike, and
without a credential that was in the arguments."""

import contextlib
from collections.abc import Iterator

from kode import credentials
from kode.errors import BusyError, MemoryRefused, StorageError, ToolError


@contextlib.contextmanager
def told_to_model() -> Iterator[None]:
    """Around what a tool asks of memory. Raises: ToolError with the same text, secrets masked."""
    try:
        yield
    except (MemoryRefused, StorageError, BusyError) as error:
        raise ToolError(credentials.redact(str(error))) from error
