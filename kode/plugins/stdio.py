"""Standard input and output of a server that another program starts: an editor, an agent.

Clients start kode and ask `initialize` at once. The answer is a plain object, and does not wait for
an SDK, which takes a second of processor time to import. Whoever serves afterwards reads the same
message again, so that the SDK knows its client, and leaves out the second answer. Anything else
that comes first waits for the SDK, also an `initialize` that is not well-formed.
"""

import asyncio
import contextlib
import gc
import importlib
import json
import os
import stat
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MAX_FIRST_BYTES = 1024 * 1024  # an `initialize` has a few hundred
Result = Callable[[Mapping[str, Any]], Mapping[str, Any] | None]
"""The result of `initialize` for its params; None leaves it to the SDK."""


@dataclass(frozen=True, kw_only=True)
class Greeted:
    """What was read of stdin, for whoever reads the rest, and what was answered of it."""

    unread: bytes = b""
    answered: str | int | None = None
    """The id of the `initialize` that has its answer."""


def greet(result: Result, modules: Sequence[str]) -> Greeted:
    """Imports `modules` in a thread, and meanwhile answers the first line of stdin, which is a
    pipe. Returns when both are done. That a client is gone is for whoever serves to find."""

    def load() -> None:
        # What fails here fails again where it is imported for use, and is reported there.
        with contextlib.suppress(Exception):
            for module in modules:
                importlib.import_module(module)

    importing = threading.Thread(target=load, daemon=True)
    importing.start()
    unread = b""
    while b"\n" not in unread and len(unread) < MAX_FIRST_BYTES and (more := os.read(0, 65536)):
        unread += more
    answered = _answer(unread.partition(b"\n")[0], result)
    importing.join()
    gc.freeze()  # kode starts without garbage collection
    gc.enable()
    return Greeted(unread=unread, answered=answered)


def _answer(line: bytes, result: Result) -> str | int | None:
    """Answers an `initialize`, and returns its id; None if it is left to the SDK."""
    try:
        request = json.loads(line)
        params, id = request["params"], request["id"]
        if request["method"] != "initialize" or type(id) not in (str, int):
            return None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    if not isinstance(params, dict) or (value := result(params)) is None:
        return None
    answer = json.dumps({"jsonrpc": "2.0", "id": id, "result": value}, ensure_ascii=False)
    try:
        with os.fdopen(os.dup(1), "wb") as stdout:
            stdout.write(answer.encode() + b"\n")
    except OSError:
        return None
    return id  # type: ignore[no-any-return]


def are_objects(values: object) -> bool:
    """Whether this is an object as the capabilities of a client are: of objects, yes or None."""
    kinds = (dict, bool, type(None))
    return isinstance(values, dict) and all(isinstance(each, kinds) for each in values.values())


def can_wait(descriptor: int) -> bool:
    """Whether an event loop can wait for a descriptor: it is a pipe, a socket or a terminal."""
    kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
    return kind in (stat.S_IFIFO, stat.S_IFSOCK) or os.isatty(descriptor)


async def take_stdin(unread: bytes, max_line_bytes: int) -> asyncio.StreamReader:
    """A reader of stdin, `unread` before the rest; all other readers find an empty stdin."""
    pipe = os.fdopen(os.dup(0), "rb", buffering=0)
    os.dup2(empty := os.open(os.devnull, os.O_RDONLY), 0)
    os.close(empty)
    reader = asyncio.StreamReader(limit=max_line_bytes)
    reader.feed_data(unread)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader
