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
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from kode.contracts import ToolContext, ToolOutput
from kode.errors import ToolError
from kode.function_tool import tool
from kode.messages import plural
from kode.permissions import sensitive
from kode.tools import file_search, files

MAX_HITS = 100
MAX_COUNTED = 10_000
"""The search stops after this many hits."""
MAX_LINE_CHARS = 300
MAX_CONTEXT = 10
MAX_CHARS = 30_000


def _preview(context: ToolContext, arguments: Mapping[str, Any]) -> str:
    """For a question about an outside folder: the subject alone would not name it."""
    where = files.shown(context, files.resolve(context, arguments.get("path") or "."))
    return f"search {where} for {arguments['pattern']}"


@tool(effect="read", subject="pattern", parallel=True, preview=_preview)
async def search_files(
    tool_context: ToolContext,
    pattern: Annotated[str, "Regular expression, matched line by line"],
    path: str = ".",
    glob: Annotated[str | None, '"*.py", "src/**/*.{ts,tsx}"'] = None,
    ignore_case: bool = False,
    context: Annotated[int, "Lines around each hit"] = 0,
) -> ToolOutput:
    """Search file contents. Files ignored by .gitignore and binaries are left out. Shows the
    first 100 hits."""
    _refuse_useless(pattern, glob)
    root = files.resolve(tool_context, path)
    files.refuse_secret(tool_context, root)
    if not root.exists():
        raise files.missing(tool_context, root)
    hits = _Hits(
        context=tool_context, root=root, glob=glob, ground=sensitive.ground(tool_context.place)
    )
    around = min(max(context, 0), MAX_CONTEXT)
    ended = await _searched(tool_context, hits, pattern, ignore_case, around)
    return ToolOutput(
        text=_render(hits, ended, pattern),
        summary=plural(hits.total, "hit"),
        files_read=tuple(hits.files),
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
    tool_context: ToolContext, hits: "_Hits", pattern: str, ignore_case: bool, around: int
) -> file_search.Ended:
    """Raises: ToolError for an invalid regular expression."""
    rg = file_search.ripgrep(tool_context)
    if rg:
        program = file_search.searching(
            rg, hits.root, pattern, ignore_case=ignore_case, context=around
        )
        ended = await file_search.run(program, b"\n", hits.take)
        if not (ended.status == 2 and ended.stderr.strip() and not hits.total):
            return ended
    _refuse_invalid(pattern)
    program = file_search.searching(
        None, hits.root, pattern, ignore_case=ignore_case, context=around
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


@dataclass(slots=True)
class _Hits:
    """Collects the messages of a search, and keeps what will be shown."""

    context: ToolContext
    root: Path
    glob: str | None
    ground: sensitive.Ground
    total: int = 0
    file_count: int = 0
    slow: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    """Files skipped because they probably hold keys."""
    files: list[str] = field(default_factory=list)
    """Files with lines shown."""
    shown: list[str] = field(default_factory=list)
    shown_hits: int = 0
    chars: int = 0
    _lines: list[str] = field(default_factory=list)
    _matches: int = 0
    _kept: int = 0
    _last: int = 0
    _wanted: bool = False

    def take(self, message: bytes) -> bool:
        """Adds one message; False once continuing is pointless."""
        if not message:
            return True
        said = json.loads(message)
        kind, data = said["type"], said["data"]
        match kind:
            case "begin":
                self._wanted = self._is_wanted(_path(data["path"]))
                self._lines, self._matches, self._kept, self._last = [], 0, 0, 0
            case "match" | "context" if self._wanted:
                self._keep(kind, data)
            case "end" if self._wanted and data.get("binary_offset") is None:
                self._commit(_path(data["path"]))
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

    def _keep(self, kind: str, data: Mapping[str, Any]) -> None:
        is_match = kind == "match"
        self._matches += is_match
        full = self.shown_hits + self._kept >= MAX_HITS or self.chars >= MAX_CHARS
        if (full and is_match) or self._matches > self._kept + is_match:
            return
        number = data["line_number"]
        if self._last and number > self._last + 1:
            self._lines.append("--")
        start = data["submatches"][0]["start"] if data.get("submatches") else 0
        line = f"{number}{':' if is_match else '-'}{_cut(_text(data['lines']), start)}"
        self._lines.append(line)
        self.chars += len(line)
        self._kept += is_match
        self._last = number

    def _commit(self, path: str) -> None:
        if not self._matches:
            return
        self.total += self._matches
        self.file_count += 1
        if not self._kept:
            return
        self.shown_hits += self._kept
        self.files.append(path)
        while self._lines[-1] == "--":
            self._lines.pop()
        self.shown += ([""] if self.shown else []) + [files.shown(self.context, Path(path))]
        self.shown += self._lines


def _path(said: Mapping[str, str]) -> str:
    if "text" in said:
        return said["text"]
    if "hex" in said:
        return os.fsdecode(bytes.fromhex(said["hex"]))
    return os.fsdecode(base64.b64decode(said["bytes"]))


def _text(said: Mapping[str, str]) -> str:
    if "text" in said:
        return said["text"].rstrip("\r\n")
    data = base64.b64decode(said["bytes"]).rstrip(b"\r\n")
    return data.decode("latin-1")


def _cut(line: str, start_byte: int) -> str:
    """The part of a long line around its match."""
    if len(line) <= MAX_LINE_CHARS:
        return line
    start = len(line.encode(errors="replace")[:start_byte].decode(errors="ignore"))
    begin = max(0, min(start - MAX_LINE_CHARS // 3, len(line) - MAX_LINE_CHARS))
    end = begin + MAX_LINE_CHARS
    return ("…" if begin else "") + line[begin:end] + ("…" if end < len(line) else "")


def _render(hits: _Hits, ended: file_search.Ended, pattern: str) -> str:
    notes: list[str] = []
    if hits.shown_hits < hits.total:
        count = f"{hits.total:,}" if hits.total < MAX_COUNTED else f"more than {MAX_COUNTED:,}"
        notes.append(
            f"[{hits.shown_hits} of {count} hits in {hits.file_count:,} files shown. "
            "Narrow the pattern, path or glob for the others.]"
        )
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
    if not hits.shown:
        where = files.shown(hits.context, hits.root)
        only = f" in files matching {hits.glob}" if hits.glob else ""
        notes.insert(0, f"No hits for {pattern!r} in {where}{only}.")
    return "\n".join([*hits.shown, *notes])
