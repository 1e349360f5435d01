"""Counts for how many consecutive sessions each entry has gone unused.

An entry is used in a session if an answer names it, or if memory brought it up as relevant. The
counts are in `uses/` of the memory folder, written once when a session ends: a cache, whose loss
only delays asking the person.
"""

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from kode import durable
from kode.memory.history import History
from kode.memory.lineage import Entry, Place
from kode.memory.stored import locked, read_row

SESSIONS = 30
"""After this many sessions without use, the person is asked whether to keep an entry."""
WORDS_IN_A_ROW = 3
"""An answer names an entry by this many consecutive words of it."""
MOST_COUNTED = 5_000
"""Limit of entries; the least recent are dropped first."""

_WORD = re.compile(r"\w[\w'’.:/@+#-]*\w|\w")


@dataclass
class _Counts:
    missed: dict[str, int] = field(default_factory=dict)
    """Sessions since an entry was last used, kept or first seen."""
    kept: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Entries that the person kept: the change, and the count before."""


async def count_session(
    root: Path, system: str, entries: Sequence[Entry], answers: Sequence[str], given: set[Place]
) -> None:
    """Counts an ending session for the entries in it. `given` are those that memory brought up as
    relevant. Raises: StorageError, BusyError."""
    if not entries:
        return
    said = [words_of(answer) for answer in answers]
    async with locked(root / "uses"):
        counts = _read(root)
        for entry in entries:
            key = _key(system, entry)
            used = entry.place in given or any(is_named(entry, answer) for answer in said)
            missed = counts.missed.pop(key, -1)
            counts.missed[key] = 0 if used else missed + 1
        _write(root, counts)


async def keep(root: Path, system: str, entry: Entry, change: str) -> None:
    """Restarts the count of an entry that the person keeps by this change. Raises: StorageError,
    BusyError."""
    async with locked(root / "uses"):
        counts = _read(root)
        key = _key(system, entry)
        counts.kept[key] = (change, counts.missed.pop(key, 0))
        counts.missed[key] = 0
        _write(root, counts)


def unused(history: History, system: str, entries: Iterable[Entry]) -> list[Entry]:
    """Entries unused in the last `SESSIONS` sessions, and not kept since."""
    known = {entry.place: entry for entry in entries}
    counted = missed_by(history, system, known.values())
    return [known[place] for place, missed in counted.items() if missed >= SESSIONS]


def missed_by(history: History, system: str, entries: Iterable[Entry]) -> dict[Place, int]:
    """Entry → the number of consecutive sessions without use; only entries that were counted."""
    counts = _read(history.path.parent)
    standing: Collection[str] | None = None
    found: dict[Place, int] = {}
    for entry in entries:
        key = _key(system, entry)
        if key not in counts.missed:
            continue
        missed = counts.missed[key]
        change, before = counts.kept.get(key, ("", 0))
        if missed < SESSIONS <= missed + before:
            # If the change that kept it is undone, the old count continues.
            if standing is None:
                standing = {one.id for one in history.standing(system)}
            missed += before if change not in standing else 0
        found[entry.place] = missed
    return found


def words_of(text: str) -> str:
    """The words of a text as `is_named` compares them."""
    return f" {' '.join(_words(text))} "


def is_named(entry: Entry, said: str) -> bool:
    """Whether a text, given as its words, names an entry."""
    words = _words(entry.text)
    count = min(WORDS_IN_A_ROW, len(words))
    runs = (words[at : at + count] for at in range(len(words) - count + 1) if count)
    return any(f" {' '.join(run)} " in said for run in runs)


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def _key(system: str, entry: Entry) -> str:
    parts = "\0".join((system, *entry.place))
    return hashlib.sha256(parts.encode(errors="replace")).hexdigest()[:16]


def _read(root: Path) -> _Counts:
    """Empty if the file is missing or damaged: the next session writes a new one."""
    try:
        return read_row(_Counts, (root / "uses" / "uses.json").read_bytes()) or _Counts()
    except OSError:
        return _Counts()


def _write(root: Path, counts: _Counts) -> None:
    missed = dict(list(counts.missed.items())[-MOST_COUNTED:])
    kept = {key: counts.kept[key] for key in missed if key in counts.kept}
    durable.make_folder(root / "uses")
    data = json.dumps(asdict(_Counts(missed=missed, kept=kept)))
    durable.replace(root / "uses" / "uses.json", data.encode())
