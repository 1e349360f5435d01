"""A file of statements: where it is, what it says otherwise than the log, and its next text.

A file is written with its own text as the template. Headings, blank lines, quotes and the order of
a person stay: only what ended is taken out, and only what is new is put in. Texts are compared with
credentials masked, as the log has them, so that a line with one stays as it is.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import NamedTuple

from kode.credentials import redact
from kode.memory.markdown import FileFormat, key_of
from kode.memory.statement import Statement, StatementKind
from kode.session.record import Project

ALIKE = 0.6
"""From this ratio on, a text that a person edited counts as a new version of the old one."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Where the statements of a memory system stand: data and pure functions. A place is what a
    statement names: a file below the memory folder, or a plain name such as `notes`."""

    facts: Callable[[Project], Sequence[str]]
    """The places of facts in this project, in the order of a prompt. A `*` in a name stands for any
    characters but `/`: those files and places count that exist."""
    records: Callable[[Project], Sequence[str]] = lambda project: ()
    """The same of records of past work, which are only checked for edits in the background."""
    format_of: Callable[[str], FileFormat | None]
    """The format of a place's files; None for a place without a file."""
    place_of: Callable[[str, str, Project], str]
    """The place for a target and a scope ("" for the default). Raises: MemoryRefused."""
    label: Callable[[str], str] = str
    """What a person and a model call a place."""
    title: Callable[[str], str] = str
    """The heading of a place in a prompt; several places may have the same."""
    fill: Callable[[str, str], str] = lambda place, text: ""
    """How full the file of a place is with a text: `37% (940/2500 characters)`; "" for no limit."""
    kind_of: Callable[[str], StatementKind] = lambda place: "fact"
    """What a statement is that a person writes into a file of this place."""
    is_shared: Callable[[str], bool] = lambda place: False
    """Whether colleagues get the statements of a place, but for private ones."""
    files_of: Callable[[str, Statement | None], Sequence[str]] = lambda place, statement: (place,)
    """The files in which a statement of a place stands; without one, those always checked."""
    check: Callable[[str, str, str], None] = lambda name, before, after: None
    """`check(name, before, after)` for the texts of a file. Raises: MemoryRefused if the file may
    not become so: it is over its limit, or not to be written."""
    derive: Callable[[str, str, Sequence[Statement], str], str] = (
        lambda name, text, statements, template: text
    )
    """`derive(name, text, statements, template)` → the text of a file with layout that follows from
    its statements, such as a summary; `template` is its text before the change."""


class TextDifference(NamedTuple):
    """What a text says otherwise than the statements that it should hold."""

    new: Sequence[str]
    gone: Sequence[Statement]
    versions: Mapping[str, Statement]
    """New text → the statement of which it seems to be another version."""


def fingerprint(text: str | None) -> str:
    """Identifies the text of a file; "" for an empty or missing one."""
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16] if text else ""


def diff(format: FileFormat, old: Sequence[Statement], text: str) -> TextDifference:
    """How the text of a file differs from the statements that it had. Which new text is a version
    of which old one is a guess, by `Key:` or likeness: only the history of an entry rests on it."""
    texts = dict.fromkeys(map(redact, format.texts(text)))
    old_texts = {statement.text for statement in old}
    gone = [statement for statement in old if statement.text not in texts]
    new = [text for text in texts if text not in old_texts]
    versions, left = dict[str, Statement](), list(gone)
    for text in new:
        if older := _older_version(text, left):
            versions[text] = older
            left.remove(older)
    return TextDifference(new, gone, versions)


def _older_version(text: str, candidates: Sequence[Statement]) -> Statement | None:
    key, matcher = key_of(text), SequenceMatcher(b=text, autojunk=False)

    def likeness(statement: Statement) -> float:
        if key and key_of(statement.text) == key:
            return 2.0
        matcher.set_seq1(statement.text)
        return matcher.ratio() if matcher.quick_ratio() >= ALIKE else 0.0

    best = max(candidates, key=likeness, default=None)
    return best if best and likeness(best) >= ALIKE else None


def render(
    format: FileFormat, text: str, wanted: Sequence[Statement], old: Sequence[Statement]
) -> str:
    """A text with all `wanted` statements and none of the `old` ones besides. A new version takes
    the place of what it replaces, if it is read back there as it is."""
    pieces = [(piece.raw, redact(piece.text)) for piece in format.split(text)]
    present, texts = {masked for _, masked in pieces if masked}, {new.text for new in wanted}
    missing = [new for new in wanted if new.text not in present]
    gone = {statement.text for statement in old} & present - texts
    if not missing and not gone:
        return text
    heirs = {
        statement.text: new
        for new in reversed(missing)
        for statement in old
        if statement.text in gone
        if statement.id in new.replaces or new.id in statement.replaces
    }

    def write(heirs: dict[str, Statement]) -> str:
        left, raws = list(missing), list[str]()
        for raw, masked in pieces:
            if (heir := heirs.get(masked)) in left:
                left.remove(heir)
                raws.append(raw.replace(raw.strip(), heir.text, 1))
            elif masked not in gone:
                raws.append(raw)
        result = "".join(raws)
        result = format.tidy(result) if len(raws) < len(pieces) else result
        for new in left:
            result = format.append(result, new.text)
        return result

    result = write(heirs)
    is_read_back = set(map(redact, format.texts(result))) == present - gone | texts
    return result if is_read_back else write({})
