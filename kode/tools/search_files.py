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
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
    where = files.display_path(context, files.resolve(context, arguments.get("path") or "."))
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
        raise files.explain_missing(tool_context, root)
    hits = _Hits(
        context=tool_context,
        root=root,
        glob=glob,
        ground=sensitive.ground(tool_context.place),
        # No more lines than could be shown of a single hit: each takes three characters.
        around=min(max(context, 0), tool_context.room // 3),
        room=min(MAX_CHARS, tool_context.room),
    )
    options = (root, hits.take, pattern, ignore_case, hits.around)
    ended = None
    if rg := file_search.ripgrep(tool_context):
        ended = await file_search.search(rg, *options)
    if ended is None or (ended.status == 2 and ended.stderr.strip() and not hits.total):
        _refuse_invalid(pattern)
        ended = await file_search.search(None, *options)
    shown: dict[str, list[_Line]] = {}
    for line in sorted(_fit(hits.lines, hits.room), key=lambda line: line.number):
        shown.setdefault(line.path, []).append(line)
    blocks = [_show(hits, path, shown[path]) for path in hits.files if path in shown]
    where = files.display_path(tool_context, root) + (f" in files matching {glob}" if glob else "")
    return ToolOutput(
        text="\n\n".join(blocks) or f"No hits for {pattern!r} in {where}.",
        notes=tuple(_notes(hits, [line for lines in shown.values() for line in lines], ended)),
        summary=plural(hits.total, "hit"),
        files_read=tuple(path for path in hits.files if path in shown),
        untrusted=files.find_outside_source(tool_context, root),
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
        file_search.refuse_bad_glob(glob)


def _refuse_invalid(pattern: str) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        at = getattr(error, "pos", None)
        what = getattr(error, "msg", None) or "it is too large"
        raise ToolError(
            f"`pattern` is not a regular expression: {what}"
            f"{'' if at is None else f' at position {at}'}. To search for the characters "
            "as they are, put a backslash before each of . * + ? ( ) [ ] { } | ^ $"
        ) from None


class _Line(NamedTuple):
    """A line of a file: a hit, or context of one."""

    path: str
    turn: int
    """The number of its hit in the file, from 0."""
    distance: int
    """Lines to its hit; 0: it is the hit."""
    number: int
    text: str

    @property
    def display(self) -> str:
        return f"{self.number}{'-' if self.distance else ':'}{self.text}"


def _fit(lines: Sequence[_Line], room: int) -> list[_Line]:
    """As many as there is room for: the first hit of each file, its context from near to far, then
    the second of each, and so on."""
    ranked = sorted(lines, key=lambda line: (line.turn, line.distance))
    hits = {line[:2] for line in [line for line in ranked if not line.distance][:MAX_HITS]}
    fitting: list[_Line] = []
    paths = set[str]()
    for line in ranked:
        if line[:2] in hits:
            room -= len(line.display) + 1 + (0 if line.path in paths else len(line.path) + 2)
            if room < 0 and fitting:
                break
            fitting.append(line)
            paths.add(line.path)
    return fitting


@dataclass(slots=True)
class _File:
    """What has come of a file."""

    path: str
    total: int = 0
    hits: int = 0
    """How many of them are kept: no more than could be shown."""
    lines: list[_Line] = field(default_factory=list)
    before: list[tuple[int, str]] = field(default_factory=list)
    """Context of a hit that is still to come."""
    chars: int = 0


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
    files: dict[str, int] = field(default_factory=dict)
    """Path → number of hits, of each file that has some."""
    lines: list[_Line] = field(default_factory=list)
    """Of the first files with hits: no more than could be shown."""
    sizes: Counter[tuple[Any, ...]] = field(default_factory=Counter)
    """Path and turn of a hit → how many lines it has with its context."""
    slow: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    """Files skipped because they probably hold keys."""
    _file: _File | None = None

    def take(self, message: bytes) -> bool:
        """Adds one message; False once continuing is pointless."""
        if not message:
            return True
        content = json.loads(message)
        data, file = content["data"], self._file
        match content["type"]:
            case "begin":
                path = os.fsdecode(_bytes(data["path"]))
                self._file = _File(path) if self._is_wanted(path) else None
            case "match" | "context" if file is not None:
                self._keep(file, data, is_hit=content["type"] == "match")
            case "end" if file is not None and file.total and data.get("binary_offset") is None:
                self.total += file.total
                self.files[file.path] = file.total
                self.sizes.update(line[:2] for line in file.lines)
                self.lines += _fit(file.lines, self.room)
            case "slow" if self._is_wanted(path := os.fsdecode(_bytes(data["path"]))):
                self.slow.append(path)
        return self.total < MAX_COUNTED

    def _is_wanted(self, path: str) -> bool:
        if files.is_secret(self.context, Path(path)):
            return False
        name = (
            os.path.basename(path) if path == str(self.root) else os.path.relpath(path, self.root)
        )
        if self.glob is not None and not file_search.matches(self.glob, name):
            return False
        # Where the search itself targets files that hold keys, the gate has asked.
        targets = (str(self.root), os.path.join(self.root, self.glob or ""))
        if sensitive.is_secret(path, self.ground) and not any(
            sensitive.is_secret(target, self.ground) for target in targets
        ):
            self.keys.append(path)
            return False
        return True

    def _keep(self, file: _File, data: Mapping[str, Any], *, is_hit: bool) -> None:
        has_enough = file.hits and (file.chars >= self.room or file.hits >= MAX_HITS)
        is_full = file.total > file.hits or len(self.files) >= MAX_HITS or (is_hit and has_enough)
        file.total += is_hit
        if is_full:
            return
        number, text = data["line_number"], _cut(data)
        last = file.lines[-1] if file.lines else None
        after = number - last.number + last.distance if last else 0
        if is_hit:
            path, turn = file.path, file.hits
            file.lines += (_Line(path, turn, number - n, n, before) for n, before in file.before)
            file.lines.append(_Line(path, turn, 0, number, text))
            file.hits, file.before = turn + 1, []
        elif last and after <= self.around:
            file.lines.append(_Line(file.path, last.turn, after, number, text))
        else:
            file.before.append((number, text))
        file.chars += len(text) + 3


def _bytes(text: Mapping[str, str]) -> bytes:
    """A text of a message: `text`, or `bytes` in base64 where it is not UTF-8."""
    return base64.b64decode(text["bytes"]) if "bytes" in text else text["text"].encode()


def _cut(data: Mapping[str, Any]) -> str:
    """A line; of a long one the part around its match."""
    raw = _bytes(data["lines"]).rstrip(b"\r\n")
    codec = "latin-1" if "bytes" in data["lines"] else "utf-8"
    line = raw.decode(codec)
    if len(line) <= MAX_LINE_CHARS:
        return line
    matches = data.get("submatches")
    start = len(raw[: matches[0]["start"]].decode(codec, "ignore")) if matches else 0
    begin = max(0, min(start - MAX_LINE_CHARS // 3, len(line) - MAX_LINE_CHARS))
    end = begin + MAX_LINE_CHARS
    return ("…" if begin else "") + line[begin:end] + ("…" if end < len(line) else "")


def _notes(hits: _Hits, lines: Sequence[_Line], ended: file_search.Ended) -> Iterator[str]:
    """What is left out."""
    shown = sum(not line.distance for line in lines)
    if shown < hits.total:
        count = f"{hits.total:,}" if hits.total < MAX_COUNTED else f"More than {MAX_COUNTED:,}"
        yield (
            f"[{count} hits in {plural(len(hits.files), 'file')}, {shown} shown. "
            "Narrow the pattern, path or glob for the others.]"
        )
    sizes = Counter(line[:2] for line in lines)
    if any(size < hits.sizes[hit] for hit, size in sizes.items()):
        yield "[Not all of the context has room: search fewer files, or read them.]"
    slow, keys = (
        ", ".join(files.display_path(hits.context, Path(path)) for path in paths[:5])
        for paths in (hits.slow, hits.keys)
    )
    if slow:
        yield (
            f"[Left out, since the pattern took too long there: {slow}. Avoid nested "
            "repetitions such as (a+)+.]"
        )
    if keys:
        yield f"[Left out, since they are likely to hold keys: {keys}.]"
    if ended.dropped:
        yield f"[Hits on lines of several megabytes are not shown: {ended.dropped}.]"
    if ended.timed_out:
        yield (
            f"[Stopped after {file_search.TIMEOUT_S:.0f} s: there may be more. "
            "Narrow path or glob.]"
        )


def _show(hits: _Hits, path: str, lines: Sequence[_Line]) -> str:
    name, total = files.display_path(hits.context, Path(path)), hits.files[path]
    count = sum(not line.distance for line in lines)
    if count < total:
        name += f" ({count} of {plural(total, 'hit')})"
    shown, last = [name], 0
    for line in lines:
        if hits.around and last and line.number > last + 1:
            shown.append("--")
        shown.append(line.display)
        last = line.number
    return "\n".join(shown)
