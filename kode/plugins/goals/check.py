"""Runs the check of a goal, and says which attempts are alike.

Each check runs in a sandbox of its own, which drops what it writes, on the files as they are on
disk. What the session's commands left in their sandbox is not there: what git ignores and nobody
kept, their `/tmp`, the byte code in it.
"""

import asyncio
import hashlib
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kode.plugin import Opens, OpenSession, open_sandbox, run_program

CHECK_S = 900.0
"""A check may take so long, if the goal has as much left."""
FIRST_S = 120.0
"""The one before the first attempt: what it has opened until then counts."""
LEAST_S = 10.0
OUTPUT_CHARS = 6_000
"""Of a check's output, its end: where most programs say what failed."""

ALIKE = 3
"""So many failures in a row of which the later ones brought nothing new end a goal."""
ALIKE_WHATEVER = 8
"""So many equal failures in a row end it whatever was changed."""

_RUN = 'exec /bin/bash -o pipefail -c "$0" 2>&1'
"""A pipeline fails where any part of it does: `pytest | tail` would always pass. Errors and output
come in the order in which they are written, or warnings would stand for the end of the output."""

_VARIES = re.compile(r"0x[0-9a-fA-F]+|\d+(?:[.,:]\d+)*")
"""Numbers: times, addresses, line numbers, process ids."""


@dataclass(frozen=True, kw_only=True)
class Checked:
    """How a check ended."""

    exit_status: int | None
    """None if it did not start or end."""
    output: str
    fault: str
    """Why there is no exit status, a phrase that completes "it ..."."""
    tree: str
    """Digest of the files of the project that it opened, as they are on disk."""
    opens: Opens | None
    """What it opened, relative to the project; None where the sandbox cannot tell."""

    @property
    def same(self) -> str:
        """Digest of the failure: its exit status, and its output without numbers."""
        what = f"{self.exit_status}\n{self.fault}\n{_VARIES.sub('0', self.output)}"
        return hashlib.sha256(what.encode("utf-8", "replace")).hexdigest()[:16]


async def run_check(
    session: OpenSession, command: str, *, timeout_s: float, changed: Sequence[str]
) -> Checked:
    """Runs a check to its end or `timeout_s`. `changed` are the files that the goal's attempts have
    changed, which stand for those that it opens where the sandbox cannot tell."""
    place = session.agent.place
    sandbox = open_sandbox(session.config, place)
    if sandbox is not None and not await asyncio.to_thread(sandbox.holds):
        sandbox = None
    try:
        ran = await run_program(
            ("/bin/bash", "-c", _RUN, command),
            cwd=place.cwd,
            environment=place.environment,
            timeout_s=min(CHECK_S, timeout_s),
            sandbox=sandbox,
            records_opens=sandbox is not None,
        )
    finally:
        if sandbox is not None:
            await asyncio.to_thread(sandbox.close)
    said = [ran.stdout.rstrip()]
    if ran.exit_code != 0:
        said += [
            f"[In the sandbox it {one.words}, which is not possible there.]" for one in ran.hits
        ]
    project = str(place.project)
    paths = changed if ran.opened is None else ran.opened.project
    tree = await asyncio.to_thread(_digest, sorted({*paths}), project)
    return Checked(
        exit_status=ran.exit_code,
        output="\n".join(filter(None, said)),
        fault=ran.fault,
        tree=tree,
        opens=None if ran.opened is None else _relative(ran.opened, place.project),
    )


def _relative(opens: Opens, project: Path) -> Opens:
    """With names of files below the project in the place of paths, and no others."""

    def names(paths: Sequence[str]) -> tuple[str, ...]:
        inside = (path for path in paths if Path(path).is_relative_to(project))
        return tuple(os.path.relpath(path, project) for path in inside)

    return replace(opens, project=names(opens.project), scripts=names(opens.scripts))


def _digest(paths: Sequence[str], project: str) -> str:
    """The digest of what these files of the project hold; what is no file counts by its name."""
    whole = hashlib.sha256()
    for path in paths:
        if not path.startswith(f"{project}/") or "/.git/" in path:
            continue
        whole.update(f"\n{path}\n".encode("utf-8", "surrogateescape"))
        try:
            if stat.S_ISREG(os.stat(path).st_mode):
                with open(path, "rb") as file:
                    whole.update(hashlib.file_digest(file, "sha256").digest())
        except OSError:
            whole.update(b"-")
    return whole.hexdigest()[:16]


def is_stalled(attempts: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a goal goes nowhere: the last `ALIKE` attempts failed, and each but the first of them
    with the exit status of an earlier one, and with the files, as the check opens them, that this
    had, or with none changed since; or the last `ALIKE_WHATEVER` failed in the same way."""
    whatever = [one["same"] for one in attempts[-ALIKE_WHATEVER:]]
    if len(whatever) == ALIKE_WHATEVER and len(set(whatever)) == 1:
        return True
    if len(attempts) < ALIKE:
        return False
    return all(
        any(_alike(attempts[earlier:at], attempts[at]) for earlier in range(at))
        for at in range(len(attempts) - ALIKE + 1, len(attempts))
    )


def _alike(before: Sequence[Mapping[str, Any]], one: Mapping[str, Any]) -> bool:
    """Whether an attempt fails as the first of those before it did, on the same files, or without a
    change since: a check that is stopped opens more of them or fewer."""
    if before[0]["exit_status"] != one["exit_status"]:
        return False
    return before[0]["tree"] == one["tree"] or not any(
        changed["files"] for changed in (*before[1:], one)
    )


def end_of(text: str) -> str:
    """The end of a long output."""
    return text if len(text) <= OUTPUT_CHARS else f"[...]\n{text[-OUTPUT_CHARS:]}"
