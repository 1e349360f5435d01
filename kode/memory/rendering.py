"""The files of statements: how one is split into statements and layout without losing a byte, how
its text differs from the log, and how its next text is made.

A statement is its lines as they stand, with its bullet; fenced code that is never closed ends with
the file. All else, such as headings, blank lines and quotes, is layout. A file is written with its
own text as the template: only what ended is taken out, and only what is new is put in. Texts are
compared with credentials masked, as in the log, so that a line with a credential stays as it is.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher
from functools import reduce
from typing import NamedTuple

from kode.credentials import redact
from kode.memory.statement import Statement, StatementKind
from kode.session.record import Project
from kode.values import Value

SEPARATOR = "§"
_BULLET = re.compile(r"(?:[-*+]|\d{1,9}[.)])[ \t]+(?=\S)")
_KEY = re.compile(r"(?:[-*+][ \t]+)?(\w[^:.!?\r\n]{0,40}):[ \t]+\S")
_LAYOUT = re.compile(r" {0,3}(?:#{1,6}(?:\s|$)|>|<!--|([-=*_])\1{2,}\s*$)")
_SECTION = re.compile(r"##(?:\s|$)")
_FENCE = re.compile(r"\s*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(?:(`{3,})[^`]*|(~{3,}).*)$", re.DOTALL)
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_FRONT = re.compile(r"\ufeff?---\r?\n(?:.*\r?\n)*?---[ \t]*(?:\r?\n|$)")


class FilePiece(NamedTuple):
    """A part of a file. The joined `raw` texts of all pieces are the file."""

    raw: str
    text: str
    """The statement; "" for layout."""


class FileFormat(Value):
    """How statements stand in a file."""

    split: Callable[[str], list[FilePiece]]
    append: Callable[[str, str], str]
    """`append(text, new)` → the text of a file with one more statement."""
    reshape: Callable[[str], str]
    """Rewrites a text that would not be read back as one statement, so that it is."""
    tidy: Callable[[str], str] = str
    """The text of a file after statements were taken out of it."""

    def fit_text(self, text: str) -> str:
        """Returns a text in a form that is read back from a file as this one statement."""
        text = normalize_text(text).strip()
        return text if self.texts(text) == [text] else self.reshape(text)

    def texts(self, text: str) -> list[str]:
        """The statements of a file, each once."""
        return list(dict.fromkeys(piece.text for piece in self.split(text) if piece.text))


def normalize_text(text: str) -> str:
    """The text with every line end as a line feed, and without a byte order mark."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def strip_bullet(text: str) -> str:
    """Returns a statement for a reader: without the bullet of its line."""
    return text[match.end() :] if (match := _BULLET.match(text)) else text


def statement_key(text: str) -> str:
    """The key of a statement of the form `Key: value`; "" for any other."""
    match = _KEY.match(text)
    return match[1].strip().casefold() if match else ""


def _split_text(
    text: str,
    is_layout: Callable[[str, str], object],
    begins: Callable[[str], object] = lambda line: False,
    *,
    has_code: bool = True,
) -> list[FilePiece]:
    """Splits a text. `is_layout(line, block)` and `begins(line)` say whether a line outside code
    ends the block above it: as layout, or as the first line of the next block."""
    pieces, block, fence = list[FilePiece](), "", ""
    for line in _LINE.findall(text):
        plain = line.removeprefix("\ufeff")
        is_apart = not fence and is_layout(plain, block)
        if block and (is_apart or (not fence and begins(plain))):
            pieces.append(_make_piece(block))
            block = ""
        if is_apart:
            pieces.append(FilePiece(line, ""))
            continue
        fence = _track_fence(fence, line) if has_code else ""
        block += line
    return [*pieces, _make_piece(block, fence)] if block else pieces


def _make_piece(raw: str, fence: str = "") -> FilePiece:
    text = normalize_text(raw).strip()
    return FilePiece(raw, f"{text}\n{fence}" if fence else text)


def _track_fence(fence: str, line: str) -> str:
    """Returns the fence that is open after a line, given the one open before it; "" for none."""
    if fence:
        return "" if fence in line and not line.strip().strip(fence[0]) else fence
    match = _FENCE.match(line)
    return (match[1] or match[2]) if match else ""


def _split_facts(text: str) -> list[FilePiece]:
    return _split_text(text, lambda line, block: line.strip() == SEPARATOR, has_code=False)


FACTS: FileFormat = FileFormat(
    split=_split_facts,
    append=lambda text, new: f"{text.rstrip()}\n{SEPARATOR}\n{new}" if FACTS.texts(text) else new,
    reshape=lambda text: "\n".join(piece.text for piece in _split_facts(text) if piece.text),
    tidy=lambda text: f"\n{SEPARATOR}\n".join(
        piece.raw.strip("\r\n") for piece in _split_facts(text) if piece.text
    ),
)
"""Entries of any text, separated by lines that hold only `§`."""


def _begins_statement(line: str) -> bool:
    """Whether a line begins a statement, whatever stands above it."""
    return bool(_BULLET.match(line.removeprefix(" ")) or _KEY.match(line))


def _split_lines(text: str) -> list[FilePiece]:
    def is_layout(line: str, block: str) -> object:
        # What begins a statement loses its indentation, so there it must not count.
        return not line.strip() or _LAYOUT.match(line if block else line.strip())

    return _split_text(text, is_layout, _begins_statement)


def _append_line(text: str, new: str) -> str:
    last = next((piece.text for piece in reversed(_split_lines(text)) if piece.raw.strip()), "")
    continues = _begins_statement(last) and _begins_statement(new)
    return _append_block(text, new, continues=continues)


def _append_block(text: str, new: str, *, continues: bool = False) -> str:
    """Appends a text, closing open fenced code; after a blank line, unless a list `continues`."""
    if fence := reduce(_track_fence, _LINE.findall(text), ""):
        text = f"{text.rstrip()}\n{fence}"
    text += "\n" if text and not text.endswith("\n") else ""
    is_gap_needed = text and not continues and _LINE.findall(text)[-1].strip()
    return f"{text}\n{new}\n" if is_gap_needed else f"{text}{new}\n"


def _reshape_line(text: str) -> str:
    lines = [line.strip() for line in strip_bullet(text).split("\n")]
    lines = [line for line in lines if line and not _FENCE.match(line)]
    return "- " + "\n    ".join(lines) if lines else ""


LINES = FileFormat(split=_split_lines, append=_append_line, reshape=_reshape_line)
"""List items with what is indented below them, `Key: value` lines, paragraphs, fenced code."""


def _head_and_sections(text: str) -> tuple[str, list[FilePiece]]:
    sections = _split_text(text, lambda line, block: False, _SECTION.match)
    has_head = sections and not _SECTION.match(sections[0].raw.removeprefix("\ufeff"))
    return sections.pop(0).raw if has_head else "", sections


def _split_sections(text: str) -> list[FilePiece]:
    head, sections = _head_and_sections(text)
    return [*_split_lines(head), *sections]


def _append_section(text: str, new: str) -> str:
    if _SECTION.match(new):
        return _append_block(text, new)
    head, sections = _head_and_sections(text)
    tail = "".join(piece.raw for piece in sections)
    return _append_line(head, new) + (f"\n{tail}" if tail else "")


def _reshape_section(text: str) -> str:
    if not _SECTION.match(text):
        return LINES.fit_text(text)
    head, *lines = text.split("\n")
    body = (f"#{line}" if _SECTION.match(line) else line for line in lines)
    return _split_sections("\n".join((head, *body)))[0].text


SECTIONS = FileFormat(split=_split_sections, append=_append_section, reshape=_reshape_section)
"""Parts that begin with `## `; before the first one, lists and paragraphs."""


def _split_whole(text: str) -> list[FilePiece]:
    match = _FRONT.match(text)
    front = match[0] if match else ""
    pieces = [FilePiece(front, ""), _make_piece(text.removeprefix(front))]
    return [piece for piece in pieces if piece.raw]


def _reshape_whole(text: str) -> str:
    while match := _FRONT.match(text):
        text = text[match.end() :].strip()
    return text


WHOLE = FileFormat(
    split=_split_whole, append=lambda text, new: f"{text}{new}\n", reshape=_reshape_whole
)
"""One statement below front matter."""


# ── layout and rendering ─────────────────────────────────────────────────────────────────────────

ALIKE = 0.6
"""From this likeness on, a text that a person edited counts as a new version of the old one."""


class Layout(Value):
    """Where a memory system keeps its statements: data and pure functions. A statement names its
    place: a file below the memory folder, or a plain name such as `notes`."""

    facts: Callable[[Project], Sequence[str]]
    """The places of facts in this project, in the order of a prompt. A `*` in a name stands for any
    characters but `/`, and expands to the existing files and places."""
    records: Callable[[Project], Sequence[str]] = lambda project: ()
    """The places of records of past work, which are only checked for edits in the background."""
    format_of: Callable[[str], FileFormat | None]
    """The format of a place's files; None for a place without a file."""
    place_of: Callable[[str, str, Project], str]
    """The place for a target and a scope ("" for the default). Raises: MemoryRefused."""
    label: Callable[[str], str] = str
    """What a person and a model call a place."""
    title: Callable[[str], str] = str
    """The heading of a place in a prompt; several places may have the same."""
    fill: Callable[[str, str], str] = lambda place, text: ""
    """How full a place's file is with this text: `37% (940/2500 characters)`; "" for no limit."""
    kind_of: Callable[[str], StatementKind] = lambda place: "fact"
    """The kind of a new statement in a place."""
    is_shared: Callable[[str], bool] = lambda place: False
    """Whether colleagues get the statements of a place, except private ones."""
    files_of: Callable[[str, Statement | None], Sequence[str]] = lambda place, statement: (place,)
    """The files that contain a statement of a place; for None, the files always checked."""
    check: Callable[[str, str, str], None] = lambda name, before, after: None
    """`check(name, before, after)` checks the new text of a file. Raises: MemoryRefused if it may
    not be written: it is over its limit, or the file is not to be written."""
    derive: Callable[[str, str, Sequence[Statement], str], str] = (
        lambda name, text, statements, template: text
    )
    """`derive(name, text, statements, template)` → the text of a file with layout that follows from
    its statements, such as a summary; `template` is its text before the change."""


class TextDifference(NamedTuple):
    """How the text of a file differs from the statements that it should hold."""

    new: Sequence[str]
    gone: Sequence[Statement]
    versions: Mapping[str, Statement]
    """New text → the statement of which it seems to be a new version."""


def fingerprint(text: str | None) -> str:
    """Identifies the text of a file; "" for an empty or missing one."""
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16] if text else ""


def diff(format: FileFormat, old: Sequence[Statement], text: str) -> TextDifference:
    """Returns how the text of a file differs from the statements that it had. Versions are guessed
    by `Key:` or likeness: only the history of an entry depends on them."""
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
    key, matcher = statement_key(text), SequenceMatcher(b=text, autojunk=False)

    def likeness(statement: Statement) -> float:
        if key and statement_key(statement.text) == key:
            return 2.0
        matcher.set_seq1(statement.text)
        return matcher.ratio() if matcher.quick_ratio() >= ALIKE else 0.0

    best = max(candidates, key=likeness, default=None)
    return best if best and likeness(best) >= ALIKE else None


def render(
    format: FileFormat, text: str, wanted: Sequence[Statement], old: Sequence[Statement]
) -> str:
    """Returns a text with all `wanted` statements and no other `old` ones. A new version takes the
    place of what it replaces, if it is read back from there unchanged."""
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
