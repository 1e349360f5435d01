"""What a fact rests on: the words in which a person states it, and lines of code (`path:10-20`).

A quotation must occur letter by letter in a message that the person typed, and not in a question.
Of code only hashes are stored; lines that moved within their file count as unchanged, unless they
occurred more than once when cited.
"""

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from kode.broken_json import object_of
from kode.errors import MemoryRefused
from kode.memory import scan
from kode.memory.search import is_unspaced
from kode.memory.statement import CodeState
from kode.messages import Message, ToolCall, calls_of, results_of
from kode.paths import path_hash, real_path

MIN_WORDS = 2
"""A single word proves nothing: it may occur in any message."""
MAX_BYTES = 2_000_000  # more is generated, not written
MAX_LINES = 200
"""A fact about more code than that is not about any code in particular."""
REPEATED = "*"
"""Suffix of the hash of lines that occurred more than once."""

_MARKS = "\"'“”„«»‘’ "
_END = re.compile(r"[.!?]+(?=[\s\"'”»)]|$)|[。！？؟\n]+")
_NUMBERED = re.compile(r"^(\d+)\t(.*)$", re.MULTILINE)
_CITED = re.compile(r"(.+?):([1-9]\d{0,6})(?:-([1-9]\d{0,6}))?")


def verify_quote(quote: str, typed: Iterable[str]) -> str:
    """Returns the quotation if a message that the person typed has it, up to white space and
    enclosing quotation marks; "" if none has it, or only within a word or a question."""
    words = " ".join(quote.split()).strip(_MARKS).split()
    text = " ".join(words)
    if len(words) < MIN_WORDS and not is_unspaced(text):
        return ""
    pattern = re.compile(r"\s+".join(map(re.escape, words)))
    for message in typed:
        for match in pattern.finditer(message):
            end = _END.search(message, match.end() - 1)
            is_asked = end is not None and any(mark in end[0] for mark in "?？؟")
            if not is_asked and not any(_is_in_word(message, at) for at in match.span()):
                return text
    return ""


def _is_in_word(text: str, at: int) -> bool:
    """Whether a word continues across a position in a text."""
    pair = text[max(at - 1, 0) : at + 1]
    return len(pair) == 2 and all(map(str.isalnum, pair)) and not is_unspaced(pair)


def cite(root: Path, source: str, messages: Iterable[Message] = ()) -> tuple[str, str]:
    """Returns the cited lines of a file below `root` as a citation, and their hash: as these
    messages show them read, else as they are now. Raises: MemoryRefused if there are none."""
    scan.check_text(source)
    path, first, last = _parse_citation(source.strip())
    lines, count = _read_code_lines(root, path), last - first + 1
    if lines is None or not first <= last <= len(lines) or count > MAX_LINES:
        raise MemoryRefused(
            f"`source` is {source!r}: give `path:line` or `path:line-line`, at most {MAX_LINES} "
            "lines of a text file in the project, or leave it out."
        )
    name = Path(real_path(root / path)).relative_to(real_path(root)).as_posix()
    read = _read_lines(root, name, messages)
    digest = _hash_code([read.get(n, lines[n - 1]) for n in range(first, last + 1)])
    repeated = REPEATED if _count_same(lines, digest, count) > 1 else ""
    where = f"{name}:{first}" if first == last else f"{name}:{first}-{last}"
    return where, f"{digest}{repeated}@{path_hash(root)}"


def _read_lines(root: Path, name: str, messages: Iterable[Message]) -> dict[int, str]:
    """The lines of a file by number as `read_file` last showed them, unless another tool changed
    the file afterwards."""
    calls, lines = dict[str, ToolCall](), dict[int, str]()
    for message in messages:
        calls |= {call.id: call for call in calls_of(message)}
        for result in results_of(message):
            call = calls.get(result.call_id)
            arguments = object_of(call.arguments) or {} if call and not result.is_error else {}
            path = real_path(root / str(arguments.get("path", "")))
            if path == real_path(root / name) or name in str(arguments.get("input", "")):
                numbered = {int(n): text for n, text in _NUMBERED.findall(result.text)}
                lines = lines | numbered if numbered else {}
    return lines


def find_code_state(root: Path, source: str, source_hash: str) -> CodeState | None:
    """The present state of cited lines; None for a source that is not code of this project."""
    digest, _, project = source_hash.partition("@")
    path, first, last = _parse_citation(source)
    if not digest or not path or project != path_hash(root):
        return None
    lines = _read_code_lines(root, path)
    if lines is None:
        return "gone"
    is_unmoved = _hash_code(lines[first - 1 : last]) == digest.removesuffix(REPEATED)
    return "unchanged" if is_unmoved or _count_same(lines, digest, last - first + 1) else "changed"


def _parse_citation(source: str) -> tuple[str, int, int]:
    """Returns the path, first and last line of a citation; the path is "" if it is none."""
    match = _CITED.fullmatch(source)
    return (match[1], int(match[2]), int(match[3] or match[2])) if match else ("", 0, 0)


def _read_code_lines(root: Path, path: str) -> list[str] | None:
    """Returns a file's lines; None if it is missing, outside the project, binary or very large."""
    file = Path(real_path(root / path))
    try:
        is_plain = file.is_relative_to(real_path(root)) and file.is_file()
        if not is_plain or file.stat().st_size > MAX_BYTES:
            return None
        return file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError):
        return None


def _hash_code(lines: list[str]) -> str:
    text = "\n".join(line.rstrip() for line in lines)
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]


def _count_same(lines: list[str], digest: str, count: int) -> int:
    """Returns how often a run of `count` lines has this hash."""
    return sum(_hash_code(lines[at : at + count]) == digest for at in range(len(lines) - count + 1))
