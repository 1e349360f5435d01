"""Where a system keeps what it remembers, by the names that its history uses: what stands there,
what a change makes of it, and how two states differ. A system derives from `Places` where its files
are more than whole texts.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Literal

from kode import durable, paths
from kode.errors import MemoryRefused
from kode.memory import scan
from kode.memory.change import Change
from kode.memory.lineage import Entry
from kode.memory.lines import revert_lines, unite_lines
from kode.memory.stored import plain_lines, read_text

State = tuple[str, ...]
"""The texts that stand in one place, as the history has them: entries, or one whole file."""
Row = Mapping[str, Any]
"""A line of an export, by field; `content` is its text. Only its system knows the others."""


@dataclass(frozen=True, kw_only=True)
class Piece:
    """One remembered thing in terms common to all systems, for display."""

    content: str
    kind: Literal["fact", "rule", "episode", "event", "soul"]
    """`fact` and `rule` hold until changed; `episode` describes a session; `event` is a raw record
    that expires; `soul` is who the agent is."""
    about: Literal["user", "env", ""] = ""
    project: str = ""
    """The path hash of the project it belongs to; "" for everywhere."""
    session: str = ""
    expires_at: str = ""
    """ISO, UTC; "" if it does not expire."""
    origin: str = ""
    """Its place in its system."""
    private: bool = False
    """Stored, but never shown to a model."""
    untrusted: bool = False
    """From untrusted content, waiting for approval."""


class Places:
    """Files that each change replaces whole, and that a person may edit by hand."""

    carrier = ""
    """What carries them in an export (module:Class), where `rows` does not say it all."""

    def __init__(self, root: Path, system: str, pattern: str) -> None:
        self.root = root
        """Memory's folder."""
        self.system = system
        self._pattern = re.compile(pattern)

    def tracks(self, target: str) -> bool:
        """Whether a name in the history is of such a place."""
        return self._pattern.fullmatch(target) is not None

    def is_here(self, target: str) -> bool:
        """Whether the place is looked at when this project's memory is opened."""
        return False

    @property
    def home(self) -> str:
        """Where what waits for them is for (`Proposal.place`)."""
        return self.system

    def concerns(self, change: Change) -> bool:
        """Whether a change is of this project, or of all."""
        return True

    def here(self) -> Sequence[str]:
        """The places there are in this project."""
        return ()

    def of_facts(self) -> Sequence[str]:
        """Those of them that hold facts, and not only records."""
        return self.here()

    def entries_of(self, target: str, texts: Sequence[str]) -> list[Entry]:
        """The entries in these texts of a place."""
        return []

    def standing(self, targets: Iterable[str]) -> list[Entry]:
        """The entries that stand in these places; of an unreadable one none."""
        found: list[Entry] = []
        for target in targets:
            with suppress(MemoryRefused):
                found += self.entries_of(target, self.read(target))
        return found

    def called(self, target: str) -> str:
        """What a person calls the place."""
        return target

    def fill(self, target: str, state: State) -> str:
        """How full it is, in words; "" if it has no limit."""
        return ""

    def lock(self, target: str) -> Path:
        """The folder whose lock its writers hold."""
        return (self.root / target).parent

    def read(self, target: str) -> State:
        """What stands there; nothing in a missing file. Raises: MemoryRefused if it cannot be
        read."""
        return whole(read_text(self.root / target) or "")

    def put(self, target: str, state: State) -> None:
        """Writes it; the caller holds the lock. Raises: MemoryRefused, StorageError."""
        path = self.root / target
        if state:
            durable.make_folder(path.parent)
            durable.replace(path, "\n".join(state).encode(errors="replace"))
        else:
            durable.remove(path)

    def finish(self, target: str, state: State) -> None:
        """Brings the further files of a place to a state that a killed kode left in its first."""

    def place_of(self, target: str) -> str:
        """The place, by which its changes are known together."""
        return target

    def is_rebuilt(self, target: str) -> bool:
        """Whether the history has all of it, and not only what became of it in the end."""
        return not target.endswith(".json")

    def is_of_entries(self, target: str) -> bool:
        """Whether the place holds separate entries, which changes name one by one."""
        return False

    def sides(self, change: Change) -> tuple[State, State]:
        """The texts of a change as they stand in a state."""
        return change.before, change.after

    def fields(self, before: State, after: State) -> dict[str, Any]:
        """The reverse: the fields of a change with these sides."""
        return {"before": before, "after": after}

    def after(self, state: State, change: Change) -> State:
        """What a change makes of a state."""
        before, after = self.sides(change)
        if before == after:
            return state
        if not self.is_of_entries(change.target):
            return whole("".join(after))
        rest = [text for text in state if text not in before]
        new = [text for text in after if text not in rest]
        at = len(rest) if change.position is None else min(change.position, len(rest))
        return (*rest[:at], *new, *rest[at:])

    def apart(self, target: str, old: State, new: State) -> dict[str, Any]:
        """The fields of the change from one state to another; empty if they do not differ."""
        if fingerprint(old) == fingerprint(new):
            return {}
        if not self.is_of_entries(target):
            return {"before": old, "after": new}
        before = tuple(text for text in old if text not in new)
        return self.fields(before, tuple(text for text in new if text not in old))

    def differs(self, target: str, stands: str) -> bool:
        """Whether something else stands there than what has this fingerprint. Raises as `read`."""
        return fingerprint(self.read(target)) != stands

    def own_edit(self, target: str) -> Change | None:
        """What a person edited there, where the place itself makes it a change, with the lock held;
        None where nothing is, or its texts say it (`edits`). Raises: MemoryRefused, StorageError,
        BusyError."""
        return None

    def edits(self, target: str, old: State, new: State) -> Iterator[dict[str, Any]]:
        """The same as one change of each run of entries that differs: what took the place of what
        is clear, where only one does."""
        if not self.is_of_entries(target):
            yield from filter(None, (self.apart(target, old, new),))
            return

        def keys(texts: Iterable[str]) -> list[str]:
            return [one.key for text in texts for one in self.entries_of(target, (text,))]

        same = {*keys(old)} & {*keys(new)}
        moved, to = (
            tuple(text for text in side if text not in other and same.issuperset(keys((text,))))
            for side, other in ((old, new), (new, old))
        )
        if moved or to:
            yield self.fields(moved, to)
        matcher = SequenceMatcher(None, old, new, autojunk=False)
        for _, i1, i2, j1, j2 in matcher.get_opcodes():
            gone, came = (
                tuple(text for text in side if same.isdisjoint(keys((text,))))
                for side in (old[i1:i2], new[j1:j2])
            )
            if gone or came:
                yield {**self.fields(gone, came), "position": j1}

    def placed(self, name: str, text: str, now: datetime) -> tuple[str, str]:
        """The place that a person calls `name` in `add`, and their text as it will stand there.
        Raises: MemoryRefused."""
        raise MemoryRefused(f"Nothing can be added to the {self.system} memory by hand.")

    def grown(self, target: str, state: State, text: str) -> State:
        """A state with a text at its end, where it does not have it."""
        if self.is_of_entries(target):
            return state if text in state else (*state, text)
        there = "\n".join(state)
        return state if f"\n{text}\n" in f"\n{there}\n" else whole(f"{there}\n{text}")

    def now_at(self, target: str) -> str:
        """Where that stands now which a change made in a place."""
        return target

    def reverted(self, target: str, state: State, change: Change) -> State:
        """A state without what a change did, with all later ones; the same if nothing of it is
        left. Raises: MemoryRefused if what it made was changed since."""
        before, after = self.sides(change)
        changed = MemoryRefused(
            f"{self.called(target)} was changed since {change.id} in the same lines. Undo the "
            f"later change first (`kode memory log`), or edit {self.root / target}."
        )
        if not self.is_of_entries(target):
            now = "".join(state)
            text = revert_lines(now, "".join(before), "".join(after))
            if text is None:
                raise changed
            return whole(text)
        gone = [text for text in after if text not in state]
        if {*after} - {*before} <= {*gone} and {*before} - {*after} <= {*state}:
            return state
        if gone:
            raise changed
        rest = [text for text in state if text not in after]
        place = state.index(after[0]) if after else change.position
        at = len(rest) if place is None else min(place, len(rest))
        return (*rest[:at], *(text for text in before if text not in rest), *rest[at:])

    def without(self, target: str, state: State, key: str) -> State:
        """A state without one of its entries: in a whole file, a line."""
        if self.is_of_entries(target):
            gone = {
                text for text in state for e in self.entries_of(target, (text,)) if e.key == key
            }
            return tuple(text for text in state if text not in gone)
        lines = "\n".join(state).split("\n")
        return whole("\n".join(line for line in lines if line.strip() != key))

    def united(self, target: str, state: State, more: State) -> State:
        """Everything that stands in either, `more` first."""
        if self.is_of_entries(target):
            return (*more, *(text for text in state if text not in more))
        return whole(unite_lines("\n".join(more), "\n".join(state)))

    # ── an export ────────────────────────────────────────────────────────────────────────────

    def rows(self) -> Iterable[Row]:
        """Everything that is stored, of every project, oldest first."""
        for target in self.here():
            where = {"system": self.system, "place": target}
            yield from ({**where, "content": text} for text in self.read(target))

    def target_of(self, row: Row) -> str:
        """The place of a row. Raises: MemoryRefused for one that has none here."""
        target = row.get("place")
        if not isinstance(target, str) or not self.tracks(target):
            raise MemoryRefused(f"`place` is {target!r}, which is none of this memory's")
        return target

    def texts_of(self, row: Row) -> State:
        """A row as it stands in its place. Raises: MemoryRefused for what may not be stored."""
        text = plain_lines(str(row["content"]))
        scan.check(text)
        return whole(text)

    def pieces_of(self, row: Row) -> Iterable[Piece]:
        """A stored row in common terms, as one or several."""
        target = self.target_of(row)
        for entry in self.entries_of(target, (row["content"],)):
            kind: Literal["fact", "episode"] = "fact" if entry.is_fact else "episode"
            yield Piece(content=entry.text, kind=kind, origin=target)

    def joined(self, target: str, there: State, coming: State) -> State:
        """A place with the texts of a row besides."""
        return self.united(target, coming, there)

    def check(self, target: str, before: State, after: State) -> None:
        """Raises: MemoryRefused if the place may not become so: it is full, or not to be
        written."""


def fingerprint(state: State) -> str:
    """Identifies a state, 16 hex digits; the order of its entries, line ends and blank lines do not
    count."""
    texts = (plain_lines(text.encode(errors="replace").decode()) for text in state)
    lines = (filter(str.strip, text.split("\n")) for text in texts)
    data = "\0".join(sorted(filter(None, ("\n".join(map(str.strip, one)) for one in lines))))
    return hashlib.sha256(data.encode()).hexdigest()[:16]


def whole(text: str) -> State:
    """The state of a file with this text."""
    return (text.strip(),) if text.strip() else ()


def path_hash_of(project: object) -> str:
    """The project of a row. Raises: MemoryRefused if it is invalid."""
    if not paths.is_path_hash(project):
        raise MemoryRefused(f"`project` is {project!r}, not 16 hex digits")
    return str(project)
