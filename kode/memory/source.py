"""Checks whether lines of code that a fact cites (`path:10-20`) are unchanged.

Only hashes of the lines and the project are stored. Lines that moved within their file are
unchanged, unless they occurred more than once when cited.
"""

import hashlib
import re
from itertools import islice
from pathlib import Path

from kode.errors import MemoryRefused
from kode.memory import scan
from kode.memory.statement import CodeState
from kode.paths import path_hash, real_path

MAX_BYTES = 2_000_000  # more is generated, not written
MAX_LINES = 200
"""A fact about more code than that is not about any code in particular."""
REPEATED = "*"
"""Suffix of the hash of lines that occurred more than once."""

_CITED = re.compile(r"(.+?):([1-9]\d{0,6})(?:-([1-9]\d{0,6}))?")


def cite(root: Path, source: str) -> tuple[str, str]:
    """The cited lines of a file below `root` as they are stored, and their hash.

    Raises: MemoryRefused if there are no such lines.
    """
    match = _CITED.fullmatch(source.strip())
    if match is None:
        raise _refused(f"`source` is {source!r}, which names no lines.")
    scan.check(source)
    path, first, last = match[1], int(match[2]), int(match[3] or match[2])
    file, folder = Path(real_path(root / path)), Path(real_path(root))
    if not file.is_relative_to(folder):
        raise _refused(f"`source`: {path} is not in this project.")
    lines = _lines(file)
    if lines is None:
        raise _refused(f"`source`: there is no {path} that can be read as text.")
    if not first <= last <= len(lines) or last - first >= MAX_LINES:
        raise _refused(
            f"`source`: {path} has {len(lines)} lines, and at most {MAX_LINES} can be cited."
        )
    cited = lines[first - 1 : last]
    repeated = REPEATED if len(_places(lines, _hash(cited), len(cited))) > 1 else ""
    name = file.relative_to(folder).as_posix()
    where = f"{name}:{first}" if first == last else f"{name}:{first}-{last}"
    return where, f"{_hash(cited)}{repeated}@{path_hash(root)}"


def state(root: Path, source: str, source_hash: str) -> CodeState | None:
    """The present state of cited lines; None for a source that is not code of this project."""
    digest, _, project = source_hash.partition("@")
    match = _CITED.fullmatch(source) if digest else None
    if match is None or project != path_hash(root):
        return None
    first, last = int(match[2]), int(match[3] or match[2])
    file = Path(real_path(root / match[1]))
    lines = _lines(file) if file.is_relative_to(Path(real_path(root))) else None
    if lines is None:
        return "gone"
    wanted = digest.removesuffix(REPEATED)
    if _hash(lines[first - 1 : last]) == wanted:
        return "unchanged"
    if digest.endswith(REPEATED):
        return "changed"
    return "unchanged" if _places(lines, wanted, last - first + 1) else "changed"


def _refused(what: str) -> MemoryRefused:
    return MemoryRefused(
        f"{what} Give `path:line` or `path:line-line` of a file in the project, or leave it out."
    )


def _lines(file: Path) -> list[str] | None:
    """None for a binary or very large file."""
    try:
        if not file.is_file() or file.stat().st_size > MAX_BYTES:
            return None
        return file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError):
        return None


def _hash(lines: list[str]) -> str:
    text = "\n".join(line.rstrip() for line in lines)
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]


def _places(lines: list[str], wanted: str, count: int) -> list[int]:
    """The first two places where `count` lines with this hash begin."""
    starts = range(len(lines) - count + 1)
    return list(islice((at for at in starts if _hash(lines[at : at + count]) == wanted), 2))
