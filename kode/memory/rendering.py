"""Writes statements into a file with the file's own text as the template, and reads edits back.

Headings, blank lines, quotes and the order of a person stay: only what ended is taken out, and only
what is new is put in. Texts are compared with credentials masked, as the log has them, so that a
line with one stays as it is.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from kode.contracts import Project
from kode.credentials import redact
from kode.memory.markdown import Format, Piece, key_of
from kode.memory.statement import Statement, StatementKind

ALIKE = 0.6
"""From this ratio on, a text that a person edited counts as a new version of the old one."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Where the statements of a memory system stand: data and pure functions.

    A place is what a statement names: the path of a file below the memory folder, or a plain name
    such as `notes` for statements without a file.
    """

    facts: Callable[[Project], Sequence[str]]
    """The places of facts in this project, in the order of a prompt. A `*` in a name stands for any
    characters but `/`: those files and places count that exist."""
    records: Callable[[Project], Sequence[str]] = lambda project: ()
    """The same of records of past work, which are only checked for edits in the background."""
    format_of: Callable[[str], Format | None]
    """The format of a place's files; None for a place without a file."""
    place_of: Callable[[str, str, Project], str]
    """The place for a target and a scope ("" for the default) that a person or a model names.
    Raises: MemoryRefused."""
    label: Callable[[str], str] = str
    """What a person and a model call a place."""
    title: Callable[[str], str] = str
    """The heading of a place in a prompt; several places may have the same."""
    fill: Callable[[str, str], str] = lambda place, text: ""
    """`fill(place, text)` → how full the file of a place is: `37% (940/2500 characters)`; "" for
    one without a limit."""
    kind_of: Callable[[str], StatementKind] = lambda place: "fact"
    """What a statement is that a person writes into a file of this place."""
    is_shared: Callable[[str], bool] = lambda place: False
    """Whether colleagues get the statements of a place, but for private ones."""
    files_of: Callable[[str, Statement | None], Sequence[str]] = lambda place, statement: (place,)
    """The files in which a statement of a place stands; without one, the files that are always
    checked. An archived statement may have another file."""
    check: Callable[[str, str, str], None] = lambda name, before, after: None
    """`check(name, before, after)` for the texts of a file. Raises: MemoryRefused if the file may
    not become so: it is over its limit, or not to be written."""
    derive: Callable[[str, str, Sequence[Statement], str], str] = (
        lambda name, text, statements, template: text
    )
    """`derive(name, text, statements, template)` → the text of a file with what follows from its
    statements, such as a summary or front matter; `template` is its text before the change. It adds
    and changes layout only."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """What a text says otherwise than the statements that it should hold."""

    new: tuple[str, ...] = ()
    gone: tuple[Statement, ...] = ()
    versions: dict[str, Statement] = field(default_factory=dict)
    """New text → the statement of which it seems to be another version."""

    def __bool__(self) -> bool:
        return bool(self.new or self.gone)


def fingerprint(text: str) -> str:
    """Identifies the text of a file; "" for an empty or missing one."""
    data = text.encode(errors="surrogatepass")
    return hashlib.sha256(data).hexdigest()[:16] if text else ""


def render(format: Format, text: str, wanted: Sequence[Statement], old: Iterable[Statement]) -> str:
    """The text of a file, made from its present text, with all `wanted` statements and none of the
    `old` ones besides. A new version takes the place of what it replaces."""
    texts = {statement.text for statement in wanted}
    pieces = [(piece, redact(piece.text)) for piece in format.split(text)]
    present = {masked for _, masked in pieces if masked}
    missing = [new for new in wanted if new.text not in present]
    gone = defaultdict[str, list[Statement]](list)
    for statement in old:
        if statement.text in present - texts:
            gone[statement.text].append(statement)
    if not missing and not gone:
        return text

    def written(*, in_place: bool) -> str:
        left, raws = list(missing), list[str]()
        for piece, masked in pieces:
            ended = gone.get(masked, ())
            heir = next(
                (new for new in left if any(_are_versions(new, old) for old in ended)), None
            )
            if in_place and heir:
                raws.append(_with_text(piece, heir.text))
                left.remove(heir)
            elif not ended:
                raws.append(piece.raw)
        is_shorter = len(raws) < len(pieces)
        result = format.tidy("".join(raws)) if is_shorter else "".join(raws)
        for new in left:
            result = format.append(result, new.text)
        return result

    result = written(in_place=True)
    if {redact(statement) for statement in format.texts(result)} != present - gone.keys() | texts:
        result = written(in_place=False)
    return result


def _are_versions(statement: Statement, other: Statement) -> bool:
    return other.id in statement.replaces or statement.id in other.replaces


def _with_text(piece: Piece, text: str) -> str:
    """A piece of a file with another statement in it."""
    body = piece.raw.strip()
    before, _, after = piece.raw.partition(body)
    return f"{before}{text}{after}"


def diff(format: Format, old: Sequence[Statement], text: str) -> Difference:
    """How the text of a file differs from the statements that it had.

    Which new text is a version of which old one is a guess, by `Key:` or likeness: only the history
    of an entry rests on it.
    """
    texts = dict.fromkeys(map(redact, format.texts(text)))
    old_texts = {statement.text for statement in old}
    gone = [statement for statement in old if statement.text not in texts]
    new = [text for text in texts if text not in old_texts]
    versions, left = dict[str, Statement](), list(gone)
    for text in new:
        if older := _older_version(text, left):
            versions[text] = older
            left.remove(older)
    return Difference(new=tuple(new), gone=tuple(gone), versions=versions)


def _older_version(text: str, candidates: Sequence[Statement]) -> Statement | None:
    key = key_of(text)
    for statement in candidates:
        if key and key_of(statement.text) == key:
            return statement
    matcher, best, best_ratio = SequenceMatcher(b=text, autojunk=False), None, ALIKE
    for statement in candidates:
        matcher.set_seq1(statement.text)
        if matcher.quick_ratio() >= best_ratio and (ratio := matcher.ratio()) >= best_ratio:
            best, best_ratio = statement, ratio
    return best
