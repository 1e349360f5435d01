"""A client's first message, answered while the rest of kode is imported beside it.

Editors and other agents start kode and ask `initialize` at once. The answer needs neither an SDK
nor a conversation, which take a second of processor time to import: it is a plain object. Whoever
serves afterwards reads the same message again, so that the SDK knows its client, and leaves out
the second answer.

Anything else that comes first waits for the SDK, also an `initialize` that is not well-formed.
"""

import contextlib
import importlib
import json
import os
import stat
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MAX_FIRST_BYTES = 1024 * 1024  # an `initialize` has a few hundred

Object = Mapping[str, Any]
Result = Callable[[Object], Object | None]
"""The result of `initialize` for its params; None leaves it to the SDK."""


@dataclass(frozen=True, kw_only=True)
class Greeted:
    """What was read of stdin, and what was answered of it."""

    unread: bytes = b""
    """All that was read, for whoever reads the rest."""
    answered: str | int | None = None
    """The id of the `initialize` that has its answer."""


def greet(result: Result, modules: Sequence[str]) -> Greeted:
    """Imports `modules` in a thread, and meanwhile answers the first line of stdin, which is a
    pipe. Returns when both are done. That a client is gone is for whoever serves to find.
    """
    importing = threading.Thread(target=_import, args=(modules,), daemon=True)
    importing.start()
    unread = b""
    while b"\n" not in unread and len(unread) < MAX_FIRST_BYTES:
        more = os.read(0, 65536)
        if not more:
            break
        unread += more
    answer = _answer(unread.partition(b"\n")[0], result)
    answered = answer["id"] if answer is not None and _sent(answer) else None
    importing.join()
    return Greeted(unread=unread, answered=answered)


def can_wait(descriptor: int) -> bool:
    """Whether an event loop can wait for a descriptor: it is a pipe, a socket or a terminal."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


def are_objects(values: object) -> bool:
    """Whether this is an object of objects, as the capabilities of a client are; a value may be
    missing, or a yes or no."""
    return isinstance(values, dict) and all(
        value is None or isinstance(value, (dict, bool)) for value in values.values()
    )


def _import(modules: Sequence[str]) -> None:
    # What fails here fails again where it is imported for use, and is reported there.
    with contextlib.suppress(Exception):
        for module in modules:
            importlib.import_module(module)


def _sent(answer: Object) -> bool:
    line = json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    try:
        while line:
            line = line[os.write(1, line) :]
    except OSError:
        return False
    return True


def _answer(line: bytes, result: Result) -> dict[str, Any] | None:
    try:
        asked = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(asked, dict) or asked.get("method") != "initialize":
        return None
    number, params = asked.get("id"), asked.get("params")
    if type(number) not in (str, int) or not isinstance(params, dict):
        return None
    found = result(params)
    return None if found is None else {"jsonrpc": "2.0", "id": number, "result": found}
