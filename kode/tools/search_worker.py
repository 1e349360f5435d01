"""Searches files without ripgrep: a script, with one JSON object on stdin. It walks
like ripgrep: nested `.gitignore` files, hidden files included, `.git` skipped, symlinks not
followed; and prints like `rg --json` or `rg --files --null`.

It is a separate process, because a regular expression can run forever while holding the
interpreter. As a script it does without the package of the tools, whose imports would take most of
its time. A file that exceeds its time limit is skipped and reported as `slow`.
"""

import base64
import collections
import json
import os
import re
import signal
import stat
import sys
import warnings
from collections.abc import Iterator
from types import FrameType
from typing import IO, TYPE_CHECKING, Any

from kode.plain_text import encoding_by_mark, lines_of

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

SKIPPED = (".git", ".hg", ".svn")
"""Never entered, whatever `.gitignore` says."""

_Rules = list[tuple[str, "GitIgnoreSpec"]]
"""(folder, its rules), the nearest folder last."""


def walk(root: str) -> Iterator[str]:
    """Absolute paths of the regular files at or below `root`, which must be a real path."""
    if os.path.isfile(root):
        yield root
        return
    # An explicit stack: folders may be nested deeper than Python's recursion limit.
    rules = _rules_above(root)
    stack = [_entries(root, rules)]
    while stack:
        entry = next(stack[-1], None)
        if entry is None:
            stack.pop()
            continue
        path, is_folder, rules = entry
        if is_folder:
            stack.append(_entries(path, rules))
            continue
        yield path


def _entries(folder: str, rules: _Rules) -> Iterator[tuple[str, bool, _Rules]]:
    if os.path.lexists(os.path.join(folder, ".git")):
        # A nested repository: the rules around it do not apply inside.
        rules = []
    own = _rules_of(folder)
    rules = [*rules, (folder, own)] if own is not None else rules
    try:
        names = sorted(os.listdir(folder), key=os.fsencode)
    except OSError:
        # An unreadable folder has nothing for this user.
        return
    for name in names:
        if name in SKIPPED:
            continue
        path = os.path.join(folder, name)
        try:
            mode = os.lstat(path).st_mode
        except OSError:
            continue
        is_folder = stat.S_ISDIR(mode)
        if not is_folder and not stat.S_ISREG(mode):
            continue
        if not _ignored(path, is_folder, rules):
            yield path, is_folder, rules


def _ignored(path: str, is_folder: bool, rules: _Rules) -> bool:
    for folder, spec in reversed(rules):
        relative = path[len(folder.rstrip("/")) + 1 :] + ("/" if is_folder else "")
        include = spec.check_file(relative).include
        if include is not None:
            return include
    return False


def _rules_of(folder: str) -> "GitIgnoreSpec | None":
    try:
        with open(os.path.join(folder, ".gitignore"), "rb") as file:
            lines = file.read(1024 * 1024).decode("utf-8", "surrogateescape").splitlines()
    except OSError:
        return None
    from pathspec import GitIgnoreSpec

    specs = []
    for line in lines:
        try:
            GitIgnoreSpec.from_lines([line])
        except ValueError:
            # A line that is not a valid pattern ignores nothing, as in git.
            continue
        specs.append(line)
    return GitIgnoreSpec.from_lines(specs)


def _rules_above(root: str) -> _Rules:
    """The rules of parent folders, without those that ignore `root` itself: a folder named
    explicitly is searched."""
    rules: _Rules = []
    folder = root
    while not os.path.lexists(os.path.join(folder, ".git")) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
        spec = _rules_of(folder)
        if spec is None:
            continue
        relative = os.path.relpath(root, folder) + "/"
        kept_patterns = [
            p for p in spec.patterns if not (p.include and p.match_file(relative) is not None)
        ]
        rules.insert(0, (folder, type(spec)(kept_patterns)))
    return rules


MAX_FILE_S = 2.0  # a pattern that backtracks without end


def main() -> None:
    asked = json.loads(sys.stdin.buffer.read())
    root = os.fsdecode(bytes.fromhex(asked["root"]))
    if asked["pattern"] is None:
        for path in walk(root):
            sys.stdout.buffer.write(os.fsencode(path) + b"\0")
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pattern = re.compile(asked["pattern"], re.IGNORECASE if asked["ignore_case"] else 0)
    signal.signal(signal.SIGALRM, _too_slow)
    for path in walk(root):
        _search(path, pattern, asked["context"])


class _TooSlow(Exception):
    pass


def _too_slow(number: int, frame: FrameType | None) -> None:
    raise _TooSlow


def _search(path: str, pattern: re.Pattern[str], context: int) -> None:
    try:
        with open(path, "rb") as file:
            signal.setitimer(signal.ITIMER_REAL, MAX_FILE_S)
            found = list(_found(file, pattern, context))
    except _TooSlow:
        _say("slow", path, {})
        return
    except OSError:
        # As ripgrep: an unreadable file has no hits.
        return
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    if not found or found[-1] is None:
        return
    _say("begin", path, {})
    for hit in found:
        if hit is not None:
            kind, data = hit
            _say(kind, path, data)
    _say("end", path, {"binary_offset": None})


def _found(
    file: IO[bytes], pattern: re.Pattern[str], context: int
) -> Iterator[tuple[str, dict[str, Any]] | None]:
    """Matches with surrounding lines; a final None if the file turns out to be binary."""
    before: collections.deque[tuple[int, str]] = collections.deque(maxlen=context)
    after = 0
    for number, line in enumerate(_lines(file), start=1):
        if line is None:
            yield None
            return
        match = pattern.search(line.removesuffix("\n").removesuffix("\r"))
        if match is None:
            if after > 0:
                after -= 1
                yield "context", _line(number, line)
            elif context:
                before.append((number, line))
            continue
        for earlier, text in before:
            yield "context", _line(earlier, text)
        before.clear()
        after = context
        start = len(line[: match.start()].encode("utf-8", "surrogateescape"))
        yield "match", {**_line(number, line), "submatches": [{"start": start}]}


def _lines(file: IO[bytes]) -> Iterator[str | None]:
    """Lines as text; None for a binary file. Invalid UTF-8 matches no letter, as in ripgrep, which
    also reads UTF-16 with a byte order mark."""
    mark = encoding_by_mark(file.read(4))
    file.seek(len(mark.bom) if mark else 0)
    if mark is not None and mark.codec.startswith("utf-16"):
        yield from lines_of(file.read().decode(mark.codec, "replace"))
        return
    for raw in file:
        yield None if b"\0" in raw else raw.decode("utf-8", "surrogateescape")


def _line(number: int, line: str) -> dict[str, Any]:
    data = line.encode("utf-8", "surrogateescape")
    try:
        return {"lines": {"text": data.decode("utf-8")}, "line_number": number}
    except UnicodeDecodeError:
        return {"lines": {"bytes": base64.b64encode(data).decode()}, "line_number": number}


def _say(kind: str, path: str, data: dict[str, Any]) -> None:
    name = os.fsencode(path).hex()
    sys.stdout.write(json.dumps({"type": kind, "data": {"path": {"hex": name}, **data}}) + "\n")


if __name__ == "__main__":
    main()
