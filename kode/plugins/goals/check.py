"""Runs the check of a goal, counts what its turns changed, and says which attempts are alike.

Each check runs in a sandbox of its own, which drops what it writes, on the files as they are on
disk. What the session's commands left in their sandbox is not there: what git ignores and nobody
kept, their `/tmp`, the byte code in it.
"""

import asyncio
import difflib
import hashlib
import os
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kode.plugin import (
    FileChanges,
    PluginSession,
    redact_secrets,
    session_file,
    shorten,
)
from kode.plugins.goals.forms import ALIKE, Attempt, CheckRun, FileCount
from kode.plugins.goals.guard import state_of

CHECK_S = 900.0
"""A check may take so long, if the goal has as much left."""
FIRST_S = 120.0
"""The one before the first attempt: what it has opened until then counts."""
LEAST_S = 10.0
OUTPUT_CHARS = 6_000
"""Of a check's output, its end: where most programs say what failed."""
MAX_COMPARED_LINES = 20_000

ALIKE_WHATEVER = 8
"""So many equal failures in a row end it whatever was changed."""

_RUN = 'exec /bin/bash -o pipefail -c "$0" 2>&1'
"""A pipeline fails where any part of it does: `pytest | tail` would always pass. Errors and output
come in the order in which they are written, or warnings would stand for the end of the output."""

_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+(?:[.,:]\d+)*")


async def run_check(
    session: Any, command: str, what: str, timeout_s: float
) -> tuple[CheckRun, Any]:
    """Runs a check to its end or `timeout_s`; returns how it ended, and what it opened, relative to
    the project: nothing where the sandbox cannot tell. `what` says to the person what it is for."""
    session.note_work(f"{what}: {shorten(command, 1000)}")
    place = session.agent.place
    try:
        line = ("/bin/bash", "-c", _RUN, command)
        ran, opens = await session.run_program(line, min(CHECK_S, timeout_s))
    finally:
        session.note_work("")
    blocked = ran.blocked if ran.exit_code != 0 else ()
    lines = (f"[In the sandbox it {hit.words}, which is not possible there.]" for hit in blocked)
    output = "\n".join(filter(None, (ran.stdout.rstrip(), *lines)))
    if len(output) > OUTPUT_CHARS:
        output = f"[...]\n{output[-OUTPUT_CHARS:]}"
    inside, scripts = (_names(paths, place.project) for paths in (opens.project, opens.scripts))
    # Files that are not known are never the same.
    files = sorted(inside) or [str(time.time_ns())]
    tree = await asyncio.to_thread(lambda: [(name, state_of(name, place)) for name in files])
    check = CheckRun(
        exit_status=ran.exit_code,
        fault=ran.fault,
        output=output,
        failure=digest_failure(ran.exit_code, ran.fault + output),
        tree=_digest(repr(tree)),
    )
    return check, replace(opens, project=inside, scripts=scripts)


def digest_failure(exit_status: int | None, output: str) -> str:
    """Equal for failures that differ in numbers alone: times, addresses, lines, process ids."""
    return _digest(f"{exit_status}\n{_NUMBERS.sub('0', output)}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def _names(opens: Iterable[str], project: Path) -> tuple[str, ...]:
    """The names of files below the project, without those of git; no others."""
    inside = (path for path in opens if Path(path).is_relative_to(project))
    names = (os.path.relpath(path, project) for path in inside)
    return tuple(name for name in names if ".git" not in name.split("/"))


def count_changes(opened: PluginSession, first: int, more: Iterable[str]) -> list[FileCount]:
    """The files that the turns from this one on have changed, from the copies that undo keeps;
    `more` are paths to look at, too. A file that is too long to be compared counts no lines."""
    session_id, project = opened.session.id, opened.place.project
    past = FileChanges()
    if session_id is not None:
        past = FileChanges(session_file(opened.place.home, session_id).with_suffix(""))
    groups = [group for group in reversed(past.groups) if group.turn.number >= first]
    turns = {path: group.turn.number for group in groups for path in group.changed}
    counts = []
    for path in dict.fromkeys((*turns, *more)):
        before, after = past.before(turns.get(path, first), path).splitlines(), _lines(path)
        if before == after:
            continue
        is_short = len(before) + len(after) <= MAX_COMPARED_LINES
        diff = list(difflib.unified_diff(before, after, n=0))[2:] if is_short else []
        name = os.path.relpath(path, project) if Path(path).is_relative_to(project) else path
        added, removed = (sum(line.startswith(sign) for line in diff) for sign in "+-")
        counts.append(FileCount(path=name, added=added, removed=removed))
    return counts


def _lines(path: str) -> list[str]:
    """With credentials masked, as they are in what `FileChanges` gives."""
    try:
        text = Path(path).read_bytes().decode("utf-8", "replace")
    except OSError:
        return []
    return str(redact_secrets(text)).splitlines()


def is_stalled(attempts: Sequence[Attempt]) -> bool:
    """Whether a goal goes nowhere: the last `ALIKE` attempts failed, and each but the first of them
    with the exit status of an earlier one, and with the files, as the check opens them, that this
    had, or with none changed since; or the last `ALIKE_WHATEVER` failed in the same way."""
    failures = [attempt.failure for attempt in attempts[-ALIKE_WHATEVER:]]
    if len(failures) == ALIKE_WHATEVER and len(set(failures)) == 1:
        return True
    return len(attempts) >= ALIKE and all(
        any(_is_alike(attempts[earlier:at], attempts[at]) for earlier in range(at))
        for at in range(len(attempts) - ALIKE + 1, len(attempts))
    )


def _is_alike(before: Sequence[Attempt], attempt: Attempt) -> bool:
    """Whether an attempt fails as the first of those before it did, on the same files, or without a
    change since: a check that is stopped opens more of them or fewer."""
    if before[0].exit_status != attempt.exit_status:
        return False
    is_changed = any(other.files for other in (*before[1:], attempt))
    return before[0].tree == attempt.tree or not is_changed
