"""`search_files`: finds lines that match a regular expression, below a folder or in one file.

`file_search` finds and matches; this module selects what the model reads. ripgrep's regular
expressions apply if it is installed; one that it does not support (look-around, backreferences)
runs on Python's, which every machine has.
"""

import base64
import json
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from kode.errors import ToolError
from kode.function_tool import tool
from kode.messages import plural
from kode.permissions import sensitive
from kode.tool import ToolContext, ToolOutput
from kode.tools import file_search, files

MAX_HITS = 100  # a few thousand tokens
MAX_COUNTED = 10_000
"""The search stops after this many hits."""
MAX_LINE_CHARS = 300  # longer lines are minified or data
MAX_CHARS = 30_000  # 8,000 tokens


def _preview(context: ToolContext, arguments: Mapping[str, Any]) -> str:
    """For a question about an outside folder: the subject alone would not name it."""
    where = files.shown(context, files.resolve(context, arguments.get("path") or "."))
    return f"search {where} for {arguments['pattern']}"


@tool(effect="read", subject="pattern", parallel=True, preview=_preview)
async def search_files(
    tool_context: ToolContext,
    pattern: Annotated[str, "Regular expression, line by line"],
    path: str = ".",
    glob: Annotated[str | None, '"*.py", "src/**/*.{ts,tsx}"'] = None,
    ignore_case: bool = False,
    context: Annotated[int, "Lines around each hit"] = 0,
) -> ToolOutput:
    """Search files, without binaries and those .gitignore names. Shows 100 hits, some of each."""
    _refuse_useless(pattern, glob)
    root = files.resolve(tool_context, path)
    files.refuse_secret(tool_context, root)
    files.refuse_moving(tool_context, root)
    if not root.exists():
        raise files.missing(tool_context, root)
    hits = _Hits(
        context=tool_context,
        root=root,
        glob=glob,
        ground=sensitive.ground(tool_context.place),
        # No more lines than could be shown of a single hit: each takes three characters.
        around=min(max(context, 0), tool_context.room // 3),
        room=min(MAX_CHARS, tool_context.room),
    )
    ended = await _searched(tool_context, hits, pattern, ignore_case)
    shares = _shares(hits)
    text, notes = _render(hits, shares, ended, pattern)
    return ToolOutput(
        text=text,
        notes=notes,
        summary=plural(hits.total, "hit"),
        files_read=tuple(share.file.path for share in shares),
        untrusted=files.outside(tool_context, root),
    )


def _refuse_useless(pattern: str, glob: str | None) -> None:
    if not pattern:
        raise ToolError("`pattern` is empty: to see which files there are, use list_files.")
    if "\n" in pattern or re.search(r"(?<!\\)(?:\\\\)*\\n", pattern):
        raise ToolError(
            "`pattern` is matched line by line, so a line feed in it never matches: search for "
            "one of the lines and use `context` to see those around it."
        )
    if "\0" in pattern:
        raise ToolError("`pattern` has a NUL character in it, which no text file has.")
    if glob is not None:
        file_search.refuse_bad(glob)


async def _searched(
    tool_context: ToolContext, hits: "_Hits", pattern: str, ignore_case: bool
) -> file_search.Ended:
    """Raises: ToolError for an invalid regular expression."""
    rg = file_search.ripgrep(tool_context)
    if rg:
        program = file_search.searching(
            rg, hits.root, pattern, ignore_case=ignore_case, context=hits.around
        )
        ended = await file_search.run(program, b"\n", hits.take)
        if not (ended.status == 2 and ended.stderr.strip() and not hits.total):
            return ended
    _refuse_invalid(pattern)
    program = file_search.searching(
        None, hits.root, pattern, ignore_case=ignore_case, context=hits.around
    )
    return await file_search.run(program, b"\n", hits.take)


def _refuse_invalid(pattern: str) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        at = getattr(error, "pos", None)
        where = f" at position {at}" if at is not None else ""
        what = getattr(error, "msg", None) or "it is too large"
        raise ToolError(
            f"`pattern` is not a regular expression: {what}{where}. To search for the characters "
            "as they are, put a backslash before each of . * + ? ( ) [ ] { } | ^ $"
        ) from None


class _Line(NamedTuple):
    number: int
    is_hit: bool
    text: str
    is_whole: bool
    """False for a long line, of which only the part around the hit is shown."""

    @property
    def shown(self) -> str:
        return f"{self.number}{':' if self.is_hit else '-'}{self.text}"

    @property
    def size(self) -> int:
        return len(self.shown) + 1


@dataclass(slots=True)
class _Hit:
    before: list[_Line]
    line: _Line
    after: list[_Line] = field(default_factory=list)


@dataclass(slots=True)
class _File:
    path: str
    total: int = 0
    hits: list[_Hit] = field(default_factory=list)
    """The first of them: no more than could be shown."""
    pending: list[_Line] = field(default_factory=list)
    """Context of a hit that is still to come."""
    chars: int = 0
    is_full: bool = False


@dataclass(slots=True)
class _Share:
    """What is shown of a file."""

    file: _File
    hits: int = 0
    is_cut: bool = False
    """Whether context of a hit is missing, which had no room."""
    lines: list[_Line] = field(default_factory=list)


@dataclass(slots=True)
class _Hits:
    """Collects the messages of a search, and keeps what may be shown."""

    context: ToolContext
    root: Path
    glob: str | None
    ground: sensitive.Ground
    around: int
    room: int
    total: int = 0
    file_count: int = 0
    slow: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    """Files skipped because they probably hold keys."""
    files: list[_File] = field(default_factory=list)
    """The first files with hits: no more than could be shown."""
    _file: _File | None = None

    def take(self, message: bytes) -> bool:
        """Adds one message; False once continuing is pointless."""
        if not message:
            return True
        said = json.loads(message)
        kind, data = said["type"], said["data"]
        match kind:
            case "begin":
                path = _path(data["path"])
                self._file = _File(path) if self._is_wanted(path) else None
            case "match" | "context" if self._file is not None:
                self._keep(self._file, data, is_hit=kind == "match")
            case "end" if self._file is not None and data.get("binary_offset") is None:
                self._commit(self._file)
            case "slow" if self._is_wanted(_path(data["path"])):
                self.slow.append(_path(data["path"]))
        return self.total < MAX_COUNTED

    def _is_wanted(self, path: str) -> bool:
        if files.is_secret(self.context, Path(path)) or not self._matches_glob(path):
            return False
        if sensitive.is_secret(path, self.ground) and not self._names_keys():
            self.keys.append(path)
            return False
        return True

    def _matches_glob(self, path: str) -> bool:
        if self.glob is None:
            return True
        if path == str(self.root):
            return file_search.matches(self.glob, os.path.basename(path))
        return file_search.matches(self.glob, os.path.relpath(path, self.root))

    def _names_keys(self) -> bool:
        """Whether the search itself targets files that hold keys: then the gate has asked."""
        named = os.path.join(self.root, self.glob) if self.glob else str(self.root)
        return sensitive.is_secret(named, self.ground) or sensitive.is_secret(
            str(self.root), self.ground
        )

    def _keep(self, file: _File, data: Mapping[str, Any], *, is_hit: bool) -> None:
        file.total += is_hit
        if is_hit and file.hits and (file.chars >= self.room or len(file.hits) >= MAX_HITS):
            file.is_full = True
        if file.is_full or len(self.files) >= MAX_HITS:
            return
        start = data["submatches"][0]["start"] if data.get("submatches") else 0
        line = _Line(data["line_number"], is_hit, *_cut(data["lines"], start))
        if is_hit:
            file.hits.append(_Hit(file.pending, line))
            file.pending = []
        elif file.hits and line.number <= file.hits[-1].line.number + self.around:
            file.hits[-1].after.append(line)
        else:
            file.pending.append(line)
        file.chars += line.size

    def _commit(self, file: _File) -> None:
        if not file.total:
            return
        self.total += file.total
        self.file_count += 1
        for hit in file.hits:
            lines = _with_context(hit, self.room)
            hit.before = [line for line in lines if line < hit.line]
            hit.after = [line for line in lines if line > hit.line]
        if file.hits:
            self.files.append(file)


def _shares(hits: _Hits) -> list[_Share]:
    """Takes the first hit of each file, then the second of each, and so on. Those of one round part
    the room that is left, so context nearest to a hit comes first where not all has room."""
    shares = [_Share(file) for file in hits.files]
    room, left = hits.room, MAX_HITS
    for turn in range(MAX_HITS):
        waiting = [share for share in shares if turn < len(share.file.hits)][:left]
        for number, share in enumerate(waiting):
            hit = share.file.hits[turn]
            head = 0 if share.lines else len(share.file.path) + 2
            least = head + hit.line.size
            if least > room:
                continue
            part = max(room // (len(waiting) - number), least)
            lines = _with_context(hit, part - least)
            share.hits += 1
            share.lines += lines
            share.is_cut |= len(lines) <= len(hit.before) + len(hit.after)
            room -= head + sum(line.size for line in lines)
            left -= 1
    return [share for share in shares if share.hits]


def _with_context(hit: _Hit, room: int) -> list[_Line]:
    """The lines of a hit: its context as far as it has room, the nearest first."""
    lines = [hit.line]
    for pair in zip_longest(reversed(hit.before), hit.after):
        for line in filter(None, pair):
            room -= line.size
            if room < 0:
                return sorted(lines)
            lines.append(line)
    return sorted(lines)


def _path(said: Mapping[str, str]) -> str:
    if "text" in said:
        return said["text"]
    if "hex" in said:
        return os.fsdecode(bytes.fromhex(said["hex"]))
    return os.fsdecode(base64.b64decode(said["bytes"]))


def _cut(said: Mapping[str, str], start_byte: int) -> tuple[str, bool]:
    """A line, and whether it is whole: of a long one the part around its match."""
    if "text" in said:
        line = said["text"].rstrip("\r\n")
        start = len(line.encode(errors="replace")[:start_byte].decode(errors="ignore"))
    else:
        line = base64.b64decode(said["bytes"]).rstrip(b"\r\n").decode("latin-1")
        start = start_byte
    if len(line) <= MAX_LINE_CHARS:
        return line, True
    begin = max(0, min(start - MAX_LINE_CHARS // 3, len(line) - MAX_LINE_CHARS))
    end = begin + MAX_LINE_CHARS
    return ("…" if begin else "") + line[begin:end] + ("…" if end < len(line) else ""), False


def _render(
    hits: _Hits, shares: Sequence[_Share], ended: file_search.Ended, pattern: str
) -> tuple[str, tuple[str, ...]]:
    """The hits, or that there are none, and notes on what is left out."""
    notes: list[str] = []
    shown = sum(share.hits for share in shares)
    if shown < hits.total:
        count = f"{hits.total:,}" if hits.total < MAX_COUNTED else f"More than {MAX_COUNTED:,}"
        notes.append(
            f"[{count} hits in {plural(hits.file_count, 'file')}, {shown} shown. "
            "Narrow the pattern, path or glob for the others.]"
        )
    if any(share.is_cut for share in shares):
        notes.append("[Not all of the context has room: search fewer files, or read them.]")
    if hits.slow:
        names = ", ".join(files.shown(hits.context, Path(path)) for path in hits.slow[:5])
        notes.append(
            f"[Left out, since the pattern took too long there: {names}. Avoid nested "
            "repetitions such as (a+)+.]"
        )
    if hits.keys:
        names = ", ".join(files.shown(hits.context, Path(path)) for path in hits.keys[:5])
        notes.append(f"[Left out, since they are likely to hold keys: {names}.]")
    if ended.dropped:
        notes.append(f"[Hits on lines of several megabytes are not shown: {ended.dropped}.]")
    if ended.timed_out:
        notes.append(
            f"[Stopped after {file_search.TIMEOUT_S:.0f} s: there may be more. "
            "Narrow path or glob.]"
        )
    if not shares:
        where = files.shown(hits.context, hits.root)
        only = f" in files matching {hits.glob}" if hits.glob else ""
        return f"No hits for {pattern!r} in {where}{only}.", tuple(notes)
    return "\n\n".join(_shown(hits, share) for share in shares), tuple(notes)


def _shown(hits: _Hits, share: _Share) -> str:
    name = files.shown(hits.context, Path(share.file.path))
    if share.hits < share.file.total:
        name += f" ({share.hits} of {plural(share.file.total, 'hit')})"
    lines, last = [name], 0
    for line in share.lines:
        if hits.around and last and line.number > last + 1:
            lines.append("--")
        lines.append(line.shown)
        last = line.number
    return "\n".join(lines)
