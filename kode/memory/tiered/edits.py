"""Computes what a change does to the entries of a fact file, and the line that describes it.

Pure functions from a file to an `Edit`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kode.errors import MemoryRefused
from kode.memory.change import Pair, Side
from kode.memory.tiered.facts import FactFile, find, shorten


@dataclass(frozen=True, kw_only=True)
class Edit:
    """A change of one file's entries, as in the history."""

    kind: str
    """"" if nothing changes."""
    line: str
    """One line for a person: `merged into env "uses pytest -q"`."""
    entries: Sequence[str]
    """All entries afterwards."""
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    position: int | None = None
    detail: str = ""
    reason: str = ""
    supersedes: str = ""
    near: tuple[Pair, ...] = ()
    against: tuple[Pair, ...] = ()
    archived: frozenset[str] | None = None
    """The archived ones of `entries` afterwards; None if none moves."""

    def on(self, file: FactFile) -> FactFile:
        """The file afterwards. A replacement of an archived entry is archived too."""
        now, was = set(self.entries), set(file.entries)
        moved = now - was if was - now and was - now <= file.archived else set()
        archived = file.archived & now | moved if self.archived is None else self.archived
        return replace(file, entries=tuple(self.entries), archived=frozenset(archived))


def known(file: FactFile, entry: str, why: str = "it is the same text") -> Edit:
    """Nothing changes: the file has it."""
    line = f"already in {file.label}: {_quote(entry)}"
    return Edit(kind="", line=line, detail=why, entries=file.entries)


def settled(file: FactFile, first: str, second: str, kept: tuple[str, ...]) -> Edit:
    """Of two entries keeps what a person chose, possibly both. Raises: MemoryRefused."""
    for entry in (first, second):
        _check_stands(file, entry)
    gone = [entry for entry in (first, second) if entry not in kept]
    line = f"kept in {file.label} {' and '.join(map(_quote, kept))}"
    return Edit(
        kind="settle",
        line=f"{line} instead of {_quote(gone[0])}" if gone else line,
        entries=[entry for entry in file.entries if entry not in gone],
        before=(first, second),
        after=kept,
        position=file.entries.index(first),
    )


def confirmed(file: FactFile, entry: str) -> Edit:
    """The entry stays, and now rests on what is cited for it. Raises: MemoryRefused."""
    _check_stands(file, entry)
    return Edit(
        kind="confirm",
        line=f"confirmed in {file.label} {_quote(entry)}",
        entries=file.entries,
        before=(entry,),
        after=(entry,),
        position=file.entries.index(entry),
    )


def disputed(file: FactFile, older: Side, newer: Side, *, reason: str = "") -> Edit:
    """Appends the newer text, beside the entry that it contradicts and that ranks higher."""
    entry, text = older[1], newer[1]
    return Edit(
        kind="add",
        line=f"added to {file.label} {_quote(text)}, which contradicts {_quote(entry)}",
        detail="what it contradicts comes from a source that counts for more, so both stay until "
        "the user decides in `kode memory review`",
        entries=[*file.entries, text],
        after=(text,),
        position=len(file.entries),
        reason=reason or "it contradicts an entry that counts for more",
        against=((older, newer),),
    )


def superseded(file: FactFile, entry: str, text: str, *, reason: str) -> Edit:
    """Replaces an entry by a newer text that contradicts it, possibly another entry. The history
    has both, and an undo restores both."""
    merge = merged(file, entry, text, text, reason=reason)
    return replace(
        merge,
        kind="supersede",
        line=f"superseded in {file.label} {_quote(entry)} by {_quote(text)}",
        detail="the older stays in the history; undoing it restores both",
    )


def added(
    file: FactFile,
    text: str,
    *,
    near: Sequence[str] = (),
    reason: str = "",
    supersedes: str = "",
) -> Edit:
    """Appends the text; `near` are entries that could not be compared with it, and `supersedes` is
    one that it makes outdated although it had been removed before."""
    listed = " and ".join(map(_quote, near))
    asked = f"it is similar to {listed}: a model compares them when a session ends"
    return Edit(
        kind="add",
        line=f"added to {file.label} {_quote(text)}",
        detail=asked if near else "",
        entries=[*file.entries, text],
        after=(text,),
        position=len(file.entries),
        reason=reason,
        supersedes=supersedes,
    )


def merged(file: FactFile, entry: str, text: str, kept: str, *, reason: str) -> Edit:
    """Merges an entry and a new text, possibly another entry, into `kept`. The history has both,
    and an undo restores both."""
    entries = [one for one in file.entries if one != text or one == entry]
    at = entries.index(entry)
    entries[at] = kept
    other = text if kept == entry else entry
    return Edit(
        kind="merge",
        line=f"merged into {file.label} {_quote(kept)}",
        detail=f"it stands for {_quote(other, 200)} too; undoing it restores both",
        entries=entries,
        before=(entry, text),
        after=(kept,),
        position=at,
        reason=reason,
    )


def replaced(file: FactFile, old_text: str, text: str) -> Edit:
    """Replaces the one entry that `old_text` means. Raises: MemoryRefused."""
    at = find(file, old_text)
    old = file.entries[at]
    entries = [entry for i, entry in enumerate(file.entries) if i == at or entry != text]
    entries[entries.index(old)] = text
    if tuple(entries) == file.entries:
        return known(file, text, "it already says that")
    return Edit(
        kind="replace",
        line=f"replaced in {file.label} {_quote(old)} by {_quote(text)}",
        entries=entries,
        before=tuple(e for e in file.entries if e in (old, text)),
        after=(text,),
        position=at,
    )


def removed(file: FactFile, old_text: str, *, instead: str = "") -> Edit:
    """Removes the one entry that `old_text` means, possibly because another one counts `instead`.
    Raises: MemoryRefused."""
    at = find(file, old_text)
    old = file.entries[at]
    return Edit(
        kind="remove",
        line=f"removed from {file.label} {_quote(old)}",
        entries=[*file.entries[:at], *file.entries[at + 1 :]],
        before=(old,),
        position=at,
        reason=f"{_quote(instead)} counts instead" if instead else "",
    )


def archived(file: FactFile, old_text: str) -> Edit:
    """Archives the one entry that `old_text` means. Raises: MemoryRefused."""
    at = find(file, old_text)
    old = file.entries[at]
    if old in file.archived:
        return known(file, old, "it is archived already")
    return Edit(
        kind="archive",
        line=f"archived from {file.label} {_quote(old)}",
        detail="not in prompts any more; recalled with a message it fits, and found by search",
        entries=file.entries,
        before=(old,),
        after=(old,),
        position=at,
        archived=file.archived | {old},
    )


def consolidated(file: FactFile, entries: Sequence[str]) -> Edit:
    """Replaces all entries outside of the archive."""
    return Edit(
        kind="consolidate",
        line=f"consolidated {file.label} {len(file.standing)} entries → {len(entries)}",
        entries=[*entries, *file.in_archive],
        before=file.standing,
        after=tuple(entries),
    )


def _check_stands(file: FactFile, entry: str) -> None:
    if entry not in file.entries:
        raise MemoryRefused(f"{file.label} no longer holds {_quote(entry)}. Nothing was changed.")


def _quote(text: str, max_chars: int = 80) -> str:
    return f'"{shorten(text, max_chars)}"'
