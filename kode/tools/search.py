"""`search_files` and `list_files`: find lines and files, by ripgrep if it is on the PATH, else by
kode's own worker, which prints the same, and select what the model reads.

A regular expression that ripgrep does not support (look-around, backreferences) runs on Python's. A
process started here never outlives its call.
"""

import asyncio
import base64
import bisect
import functools
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, chain, starmap, zip_longest
from pathlib import Path
from typing import Annotated, Any

from kode.errors import ToolError
from kode.messages import plural
from kode.permissions import places
from kode.process import find_program
from kode.tool import ToolContext, ToolOutput, tool
from kode.tools import files, search_worker
from kode.tools.processes import PYTHON, feed_stdin, open_program
from kode.values import dataclass, field

TIMEOUT_S = 30.0  # a very large repository on a cold disk
MAX_PIECE_BYTES = 8 * 1024 * 1024
"""A longer message, a hit on an enormous line, loses its beginning: it is no valid JSON then."""
MAX_HITS = 100  # a few thousand tokens
MAX_COUNTED = 10_000  # hits; more are not searched for
MAX_LINE_CHARS = 300  # longer lines are minified or data
MAX_CHARS = 30_000  # 8,000 tokens
MAX_AROUND = 500  # about as many lines as `MAX_CHARS` takes
MAX_KEPT_LINES = 2_000  # of one file: its first hits, and the lines around them
MAX_FILES = 1_000  # about as many as `MAX_CHARS` takes
MAX_FOLDERS = 150  # lines of an overview, which stands for a list that is too long
MAX_DEPTH = 5  # the deepest level of the folders in an overview


def _preview_outside(context: ToolContext, arguments: Mapping[str, Any]) -> str:
    """Text for a question about an outside folder, which the subject alone would not name."""
    where = files.display_path(context, files.resolve(context, arguments.get("path") or "."))
    return f"search {where} for {arguments['pattern']}"


@tool(effect="read", subject="pattern", parallel=True, preview=_preview_outside)
async def search_files(
    tool_context: ToolContext,
    pattern: Annotated[str, "Regular expression, line by line"],
    path: str = ".",
    glob: Annotated[str | None, '"*.py", "src/**/*.{ts,tsx}"'] = None,
    ignore_case: bool = False,
    context: Annotated[int, "Lines around each hit"] = 0,
) -> ToolOutput:
    """Search files, without binaries and those .gitignore names. Shows 100 hits, some of each."""
    if not pattern:
        raise ToolError("`pattern` is empty: to see which files there are, use list_files.")
    if "\n" in pattern or "\0" in pattern or re.search(r"(?<!\\)(?:\\\\)*\\n", pattern):
        raise ToolError(
            "`pattern` is matched line by line, so a line feed or NUL in it never matches: search "
            "for one of the lines and use `context` to see those around it."
        )
    if glob is not None:
        matches_glob(glob, "")  # refuses a bad one
    root = files.resolve_tree(tool_context, path)
    files.refuse_secret(tool_context, root)
    search = _TextSearch(
        context=tool_context,
        root=root,
        glob=glob,
        rules=places.path_rules(tool_context.place),
        around=max(context, 0),
    )
    options = (root, search.take, pattern, ignore_case, min(search.around, MAX_AROUND))
    for program in dict.fromkeys((find_ripgrep(tool_context), None)):
        status, fault, notes = await run_search(program, *options)
        if status != 2 or not fault.strip() or search.total:
            break
    else:
        raise ToolError(
            f"`pattern` is not a regular expression: {fault}. To search for the characters "
            "as they are, put a backslash before each of . * + ? ( ) [ ] { } | ^ $"
        )
    selection = search.choose_lines()
    text = "\n\n".join(starmap(search.render, selection.items()))
    where = files.display_path(tool_context, root) + (f" in files matching {glob}" if glob else "")
    return ToolOutput(
        text=text or f"No hits for {pattern!r} in {where}.",
        notes=(*search.describe_omissions(), *notes),
        summary=plural(search.total, "hit"),
        files_read=tuple(selection),
        untrusted=files.find_outside_source(tool_context, root),
    )


@tool(effect="read", subject="path", parallel=True)
async def list_files(
    context: ToolContext,
    pattern: Annotated[str | None, 'Glob: "*.py", "src/**/*.ts"'] = None,
    path: str = ".",
) -> ToolOutput:
    """List files below a folder, without those .gitignore names."""
    root = files.resolve_tree(context, path)
    if not root.is_dir():
        raise ToolError(f"{files.display_path(context, root)} is a file: use read_file to see it.")
    glob = pattern.removeprefix(f"{root}/") if pattern else None
    if glob:
        if ".." in glob.split("/"):
            raise ToolError("`pattern` goes below `path` only: give the other folder as `path`.")
        matches_glob(glob, "")  # refuses a bad one
    names: list[str] = []

    def take(piece: bytes) -> bool:
        name = os.fsdecode(piece)[len(str(root).rstrip("/")) + 1 :]
        if name and (glob is None or matches_glob(glob, name)):
            names.append(name)
        return True

    *_, notes = await run_search(find_ripgrep(context), root, take)
    shown = [files.display_path(context, root / name) for name in names[:MAX_FILES]]
    ends = accumulate(len(line) + 1 for line in shown)
    lines = shown[: sum(end <= min(MAX_CHARS, context.room) for end in ends)]
    if len(lines) < len(names):
        count = f"{len(lines):,} of {len(names):,} files shown."
        if overview := _describe_folders(context, root, names):
            count = f"{len(names):,} files are too many to list: this is where they are."
        lines, notes = overview or lines, (f"[{count} Narrow with pattern or path.]", *notes)
    if not lines:
        only = f" matching {glob}" if glob else ""
        lines = [f"No files{only} in {files.display_path(context, root)}."]
    return ToolOutput(
        text="\n".join(lines),
        notes=notes,
        summary=plural(len(names), "file"),
        untrusted=files.find_outside_source(context, root),
    )


@dataclass
class _SearchedFile:
    total: int = 0
    """Number of hits."""
    hits: list[int] = field(default_factory=list)
    """The line numbers of the first hits."""
    lines: dict[int, str] = field(default_factory=dict)
    """Number → text of these lines and of those around them."""


_Selection = dict[str, dict[int, str]]
"""The lines to be shown: path → number → text."""


@dataclass(kw_only=True)
class _TextSearch:
    """Collects the messages of a search, and keeps what may be shown."""

    context: ToolContext
    root: Path
    glob: str | None
    rules: places.PathRules
    around: int
    total: int = 0
    files: dict[str, _SearchedFile] = field(default_factory=dict)
    """By path, each file that has hits."""
    distance: int = 0
    """How many lines around each hit have room."""
    shown: int = 0
    """Number of hits that are shown."""
    dropped: int = 0
    """Number of messages that were too long."""
    keys: list[str] = field(default_factory=list)
    """Files skipped because they probably hold keys."""
    _path: str = ""
    _file: _SearchedFile | None = None

    def take(self, message: bytes) -> bool:
        """Adds one message; False once continuing is pointless."""
        if not message:
            return True
        try:
            content = json.loads(message)
        except ValueError:
            self.dropped += 1
            return True
        kind, data = content["type"], content["data"]
        if kind == "begin":
            self._path = os.fsdecode(_message_bytes(data["path"]))
            self._file = _SearchedFile() if self._is_wanted(self._path) else None
        elif (file := self._file) is None:
            pass
        elif kind in ("match", "context"):
            file.total += kind == "match"
            is_full = MAX_HITS in (len(self.files), len(file.hits))
            if not is_full and len(file.lines) < MAX_KEPT_LINES:
                file.hits += [data["line_number"]] if kind == "match" else []
                file.lines[data["line_number"]] = _clip_line(data)
        elif kind == "end" and file.total and data.get("binary_offset") is None:
            self.total += file.total
            self.files[self._path] = file
        return self.total < MAX_COUNTED

    def _is_wanted(self, path: str) -> bool:
        if files.is_secret(self.context, Path(path)):
            return False
        is_root = path == str(self.root)
        name = os.path.basename(path) if is_root else os.path.relpath(path, self.root)
        if self.glob is not None and not matches_glob(self.glob, name):
            return False
        # If the search itself targets files that hold keys, the gate has asked.
        targets = (str(self.root), os.path.join(self.root, self.glob or ""))
        if places.is_secret(path, self.rules) and not any(
            places.is_secret(target, self.rules) for target in targets
        ):
            self.keys.append(path)
            return False
        return True

    def choose_lines(self) -> _Selection:
        """As many lines as there is room for: the first hit of each file, the second of each, and
        so on; then the lines around them. Sets `distance`."""
        turns = zip_longest(*(file.hits for file in self.files.values()))
        pairs = chain.from_iterable(zip(self.files, turn, strict=True) for turn in turns)
        hits = [(path, hit) for path, hit in pairs if hit is not None][:MAX_HITS]

        def choose(count: int, distance: int) -> _Selection:
            selection: _Selection = {}
            for path, hit in hits[:count]:
                lines, near = self.files[path].lines, range(hit - distance, hit + distance + 1)
                chosen = selection.setdefault(path, {})
                chosen.update((number, lines[number]) for number in near if number in lines)
            return selection

        def is_too_long(step: tuple[int, int]) -> bool:
            return min(MAX_CHARS, self.context.room) < sum(
                len(path) + 2 + sum(len(f"{number}:{text}\n") for number, text in lines.items())
                for path, lines in choose(*step).items()
            )

        steps = [(count, 0) for count in range(len(hits) + 1)]
        steps += [(len(hits), distance) for distance in range(1, min(self.around, MAX_AROUND) + 1)]
        count_fitting = bisect.bisect_left(steps, True, key=is_too_long)
        count, self.distance = steps[max(bool(hits), count_fitting - 1)]
        return choose(count, self.distance)

    def render(self, path: str, lines: Mapping[int, str]) -> str:
        name, file = files.display_path(self.context, Path(path)), self.files[path]
        count = sum(number in lines for number in file.hits)
        self.shown += count
        texts = [f"{name} ({count} of {plural(file.total, 'hit')})" if count < file.total else name]
        for number, text in sorted(lines.items()):
            if self.around and len(texts) > 1 and number - 1 not in lines:
                texts.append("--")
            texts.append(f"{number}{':' if number in file.hits else '-'}{text}")
        return "\n".join(texts)

    def describe_omissions(self) -> list[str]:
        """Notes on what is left out."""
        total = f"{self.total:,}" if self.total < MAX_COUNTED else f"More than {MAX_COUNTED:,}"
        keys = (files.display_path(self.context, Path(path)) for path in self.keys[:5])
        notes = {
            f"{total} hits in {plural(len(self.files), 'file')}, {self.shown} shown. Narrow the "
            "pattern, path or glob for the others.": self.shown < self.total,
            "Not all of the context has room: search fewer files, or read them.": self.shown
            and self.distance < self.around,
            f"Left out, since they are likely to hold keys: {', '.join(keys)}.": self.keys,
            f"Hits on lines of several megabytes are not shown: {self.dropped}.": self.dropped,
        }
        return [f"[{note}]" for note, is_needed in notes.items() if is_needed]


def _message_bytes(text: Mapping[str, str]) -> bytes:
    """A text of a message: `text`, or `bytes` in base64 where it is not UTF-8."""
    return base64.b64decode(text["bytes"]) if "bytes" in text else text["text"].encode()


def _clip_line(data: Mapping[str, Any]) -> str:
    """A line; of a long one the part around its match."""
    raw = _message_bytes(data["lines"]).rstrip(b"\r\n")
    codec = "latin-1" if "bytes" in data["lines"] else "utf-8"
    line = raw.decode(codec)
    if len(line) <= MAX_LINE_CHARS:
        return line
    matches = data.get("submatches")
    start = len(raw[: matches[0]["start"]].decode(codec, "ignore")) if matches else 0
    begin = max(0, min(start - MAX_LINE_CHARS // 3, len(line) - MAX_LINE_CHARS))
    end = begin + MAX_LINE_CHARS
    return ("…" if begin else "") + line[begin:end] + ("…" if end < len(line) else "")


def _describe_folders(context: ToolContext, root: Path, names: Sequence[str]) -> list[str]:
    """A line for each folder with some of these files, and their number, at the deepest level with
    at most `MAX_FOLDERS` lines; empty if no level has so few."""
    for depth in range(MAX_DEPTH, 0, -1):
        steps = (name.split("/") for name in names)
        counts = Counter((*it[:depth], "") if depth < len(it) else (*it,) for it in steps)
        if len(counts) <= MAX_FOLDERS:
            return [
                files.display_path(context, root.joinpath(*place))
                + ("" if place[-1] else f"/ ({plural(count, 'file')})")
                for place, count in counts.items()
            ]
    return []


_COMMON = (
    "--no-config --no-messages --hidden --no-require-git --no-ignore-dot --no-ignore-global "
    "--no-ignore-exclude --sort=path --glob=!.git --glob=!.hg --glob=!.svn".split()
)


def find_ripgrep(context: ToolContext) -> str | None:
    """The program `rg` on the tools' PATH, outside the working folders."""
    path = context.place.environment.get("PATH", "")
    return find_program("rg", (context.place.cwd, *context.place.roots), path=path)


async def run_search(
    rg: str | None,
    root: Path,
    take: Callable[[bytes], bool],
    pattern: str | None = None,
    ignore_case: bool = False,
    context: int = 0,
) -> tuple[int, str, tuple[str, ...]]:
    """Passes the path of each file below `root` to `take`, or, with a pattern, each message in the
    form of `rg --json`. Ends early if `take` returns False. Returns the program's exit status and
    errors, and notes for the model.

    Raises: OSError if no program can be started; CancelledError, after it was killed.
    """
    question, options = b"", ["--files", "--null"]
    if pattern is not None:
        case = "--ignore-case" if ignore_case else "--case-sensitive"
        options = ["--json", "--crlf", "--no-mmap", f"--context={context}", case]
        options.append(f"--regexp={pattern}")
    argv = [rg or "", *_COMMON, *options, "--", str(root)]
    if not rg:
        argv, folder = [*PYTHON, search_worker.__file__], os.fsencode(root).hex()
        words = {"pattern": pattern, "ignore_case": ignore_case, "context": context}
        question = json.dumps({"root": folder, **words}).encode()
    stderr, rest, separator = b"", b"", b"\0" if pattern is None else b"\n"
    notes: tuple[str, ...] = ()
    async with open_program(argv) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await feed_stdin(process.stdin, question)
                while data := await process.stdout.read(262_144):
                    *pieces, rest = (rest + data).split(separator)
                    if not all(map(take, pieces)):
                        break
                    rest = rest if len(rest) <= MAX_PIECE_BYTES else b""
                else:
                    stderr = await process.stderr.read(65536)
        except TimeoutError:
            notes = (f"[Stopped after {TIMEOUT_S:.0f} s: there may be more. Narrow path or glob.]",)
    return process.returncode or 0, stderr.decode(errors="replace"), notes


@functools.lru_cache(maxsize=64)
def _compile_glob(pattern: str) -> re.Pattern[str]:
    """Compiles a glob to a regular expression that matches whole relative paths. Raises: ToolError
    for unbalanced braces and brackets, and for too many alternatives."""
    from wcmatch import glob

    # The pattern without escaped characters and sets.
    rest = re.sub(r"(?s)\\.|\[[!^]?.[^]]*\]", "", pattern)
    fault = "a bracket is not closed" if "[" in rest else ""
    if rest.count("{") > rest.count("}"):
        fault = "a brace is not closed"
    # Drops a brace around one alternative, as ripgrep does.
    anchored = re.sub(r"(?<!\\)\{([^{},]*)\}", r"\1", pattern).removeprefix("./")
    flags = glob.GLOBSTAR | glob.BRACE | glob.DOTGLOB | glob.FORCEUNIX | glob.CASE
    if "/" not in anchored.rstrip("/"):
        flags |= glob.MATCHBASE
    try:
        expressions, _ = glob.translate(anchored.strip("/"), flags=flags)
        expression = re.compile("|".join(expressions))
    except Exception as error:  # wcmatch's exception for too many alternatives is private
        fault = str(error)
    if fault:
        raise ToolError(
            f"{pattern!r} is not a glob: {fault}. Use patterns such as *.py or src/**/*.ts."
        )
    return expression


def matches_glob(pattern: str, path: str) -> bool:
    """Whether a relative path matches the glob; a leading `!` negates. Raises: ToolError."""
    glob = _compile_glob(pattern.removeprefix("!"))
    return (glob.fullmatch(path) is None) == pattern.startswith("!")
