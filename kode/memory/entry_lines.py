"""Shows entries as bullets of a Markdown file, and converts an edit of the file back to changes.

    - likes tabs
    - builds with
      `make all`

A paragraph and a block of code also parse as entries. A heading does not: a fact is read alone and
must contain what the heading says.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

_INDENT = "  "
_FENCES = ("```", "~~~")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One displayed entry."""

    key: str
    """Its identity in its system: an id, or its text."""
    text: str
    mark: str = ""
    """A prefix on display: that it may be stale."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One change: sets the entry `key` to `text`. No key: a new entry; no text: removal."""

    key: str | None = None
    text: str | None = None


def render(rows: Sequence[Row]) -> str:
    """The file with these entries."""
    return "".join(f"{_bullet(row.mark + row.text)}\n" for row in rows)


def parse(text: str) -> list[str]:
    """The entries in a file, in order, whoever wrote it."""
    entries: list[list[str]] = []
    is_open, is_bullet, fence, blanks = False, False, "", 0
    for line in text.replace("\r\n", "\n").split("\n"):
        if fence:
            entries[-1].append(line)
            fence = "" if line.startswith(fence) else fence
        elif not line.strip():
            blanks += 1
        elif is_open and is_bullet and line.startswith(_INDENT):
            entries[-1] += [*[""] * blanks, line[len(_INDENT) :]]
            blanks = 0
        elif line.startswith("#"):
            is_open, blanks = False, 0
        else:
            starts = line.startswith(("- ", "* "))
            if is_open and not blanks and not starts:
                entries[-1].append(line)
            else:
                entries.append([line[2:] if starts else line])
                is_open, is_bullet = True, starts
            fence = next((one for one in _FENCES if line.startswith(one)), "")
            blanks = 0
    return [entry for lines in entries if (entry := "\n".join(lines).strip())]


def steps(rows: Sequence[Row], text: str) -> list[Step]:
    """The changes that turn these entries into those of `text`: removals, then edits, then
    additions. A moved entry stays where it was."""
    new = parse(text)
    shown = [parse(render([row]))[0] for row in rows]
    moved = {*shown} & {*new}
    gone: list[Step] = []
    changed: list[Step] = []
    added: list[Step] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, shown, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        old_rows = [rows[at] for at in range(i1, i2) if shown[at] not in moved]
        texts = [entry for entry in new[j1:j2] if entry not in moved]
        if len(old_rows) == len(texts):
            pairs = zip(old_rows, texts, strict=True)
            changed += (Step(key=row.key, text=said.removeprefix(row.mark)) for row, said in pairs)
        else:
            # Which replaces which is unknown.
            gone += (Step(key=row.key) for row in old_rows)
            added += (Step(text=entry) for entry in dict.fromkeys(texts))
    return [*gone, *changed, *added]


def _bullet(text: str) -> str:
    first, *rest = text.split("\n")
    return "\n".join([f"- {first}", *(f"{_INDENT}{line}" if line.strip() else "" for line in rest)])
