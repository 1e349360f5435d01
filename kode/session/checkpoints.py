"""What files held before a turn changed them, so that a turn can be taken back, and that again.

Beside the session's file, in `sessions/<id>/checkpoints/`: `changes.jsonl`, one line for each file
a turn touched (before) and left (after), and the contents themselves, named by their SHA-256.
Files changed through the shell are not seen here.
"""

import difflib
import hashlib
import json
import os
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from kode import durable

MAX_FILE_BYTES = 5 * 1024 * 1024
"""A larger file is not kept; undo then says that it was left alone."""

TOO_LARGE = "too-large"
"""Stands for a content that was not kept."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """One file in one turn. A hash of None means that there was no file."""

    turn: int
    path: str
    before: str | None
    after: str | None = None
    mode: int = 0o644
    done: bool = False
    """False on the line written before the change: `after` says nothing yet."""
    undone: bool = False
    """Set on the line that says that the change was taken back (or put forth again)."""


@dataclass(frozen=True, kw_only=True)
class Undone:
    """What an undo did. Paths are absolute."""

    turn: int | None
    restored: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    """Files that were not there before."""
    left_alone: tuple[tuple[str, str], ...] = ()
    """(path, why)."""


@dataclass
class Checkpoints:
    """The kept contents of one session. `folder` is created when the first file is kept."""

    folder: Path
    open_turn: dict[str, Change] = field(default_factory=dict)
    """Path → the change under way, by the turn that runs now."""

    def keep(self, turn: int, path: str) -> None:
        """Before a tool changes `path`: keeps its content, once a turn, durably.

        Raises: StorageError; then the file must not be changed.
        """
        if path in self.open_turn:
            return
        digest, mode = self._store(Path(path))
        self.open_turn[path] = Change(turn=turn, path=path, before=digest, mode=mode)
        # On disk before the change, so that a crash in the middle can be taken back too.
        self._record(self.open_turn[path])

    def remove_stale_temporaries(self) -> None:
        """Removes what a write that a crash cut short left beside the person's files."""
        changes = {change.path: change for change in self._changes()}
        for folder in {Path(c.path).parent for c in changes.values() if not c.done}:
            durable.remove_stale_temporaries(folder)

    def end_turn(self) -> None:
        """Notes what the turn left behind, by hash only. Raises: StorageError."""
        for path, change in self.open_turn.items():
            self._record(replace(change, after=_hash_of(Path(path)), done=True))
        self.open_turn.clear()

    def undo(self) -> Undone:
        """Takes back the last turn that changed files: every file it changed that nobody has
        changed since. Doing it again takes back the undo. Raises: StorageError."""
        changes = self._last_turn()
        if not changes:
            return Undone(turn=None)
        restored: list[str] = []
        removed: list[str] = []
        left: list[tuple[str, str]] = []
        for change in changes:
            why = self._restore(change)
            if why:
                left.append((change.path, why))
            else:
                (removed if change.before is None else restored).append(change.path)
        return Undone(
            turn=changes[0].turn,
            restored=tuple(restored),
            removed=tuple(removed),
            left_alone=tuple(left),
        )

    def diff(self, seen_from: Path) -> str:
        """What the session has changed so far, as a unified diff against the first contents; files
        inside `seen_from` are named relative to it."""
        first: dict[str, str | None] = {}
        for change in self._changes():
            first.setdefault(change.path, change.before)
        pieces = (self._diff_of(path, before, seen_from) for path, before in first.items())
        return "".join(piece for piece in pieces if piece)

    def _restore(self, change: Change) -> str:
        """Puts one file back; returns why it was left alone, else ""."""
        path = Path(change.path)
        current = _hash_of(path)
        if current != change.after:
            return "it has changed since"
        if TOO_LARGE in (change.before, change.after):
            return "it was too large to keep"
        kept, mode = self._store(path)
        self._record(
            Change(
                turn=change.turn,
                path=change.path,
                before=kept,
                after=change.before,
                mode=mode,
                done=True,
                undone=True,
            )
        )
        if change.before is None:
            durable.remove(path)
        else:
            durable.make_folder(path.parent)
            durable.replace(path, (self.folder / change.before).read_bytes(), mode=change.mode)
        return ""

    def _store(self, path: Path) -> tuple[str | None, int]:
        with durable.storage_errors(path, "read"):
            try:
                status = os.stat(path)
                if status.st_size > MAX_FILE_BYTES:
                    return TOO_LARGE, status.st_mode & 0o7777
                data = path.read_bytes()
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return None, 0o644
        digest = hashlib.sha256(data).hexdigest()
        durable.make_folder(self.folder)
        if not (self.folder / digest).exists():
            durable.replace(self.folder / digest, data)
        return digest, status.st_mode & 0o7777

    def _record(self, change: Change) -> None:
        durable.make_folder(self.folder)
        durable.append_line(self.folder / "changes.jsonl", json.dumps(asdict(change)).encode())

    def _changes(self) -> list[Change]:
        """Every readable line; a torn one says nothing."""
        try:
            lines = (self.folder / "changes.jsonl").read_bytes().splitlines()
        except OSError:
            return []
        return [change for change in map(_parse, lines) if change is not None]

    def _last_turn(self) -> list[Change]:
        """What the newest turn or undo that changed anything did, one change a file."""
        group: tuple[int, bool] | None = None
        newest: dict[str, Change] = {}
        for change in reversed(self._changes()):
            if group not in (None, (change.turn, change.undone)):
                break
            if not change.done:
                # A turn that a crash cut short left no hash of its own: what is there now is its
                # work, unless a later line of the same turn tells.
                change = replace(change, after=_hash_of(Path(change.path)))
            later = newest.get(change.path)
            if later is not None:
                # Several agents may have changed it in one turn: the first content counts.
                if (later.turn, later.undone) == (change.turn, False):
                    later = replace(later, before=change.before, mode=change.mode)
                    newest[change.path] = later
                    if later.before != later.after:
                        group = (later.turn, False)
                continue
            if change.before != change.after:
                group = (change.turn, change.undone)
            newest[change.path] = change
        return [change for change in newest.values() if change.before != change.after]

    def _diff_of(self, path: str, before: str | None, seen_from: Path) -> str:
        if before == TOO_LARGE:
            return f"{path}: too large to compare\n"
        old = "" if before is None else _text(self.folder / before)
        new = _text(Path(path))
        if old == new:
            return ""
        inside = Path(path).is_relative_to(seen_from)
        name = os.path.relpath(path, seen_from) if inside else path
        lines = difflib.unified_diff(
            old.splitlines(keepends=True),
            new.splitlines(keepends=True),
            fromfile="/dev/null" if before is None else name,
            tofile=name if Path(path).exists() else "/dev/null",
        )
        return "".join(line if line.endswith("\n") else line + "\n" for line in lines)


def _parse(line: bytes) -> Change | None:
    try:
        return Change(**json.loads(line))
    except (ValueError, TypeError):
        return None


def _hash_of(path: Path) -> str | None:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            return TOO_LARGE
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", errors="replace")
    except OSError:
        return ""
