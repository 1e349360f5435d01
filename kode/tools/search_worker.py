"""Searches files without ripgrep: a script, with one JSON object on stdin. It walks like ripgrep:
nested `.gitignore` files, hidden files included, `.git` skipped, symlinks not followed; and prints
like `rg --json` or `rg --files --null`.

It is a separate process, because a regular expression can run forever while holding the
interpreter. It does not import the package of the tools, which would take most of its time.
"""

import base64
import collections
import contextlib
import json
import os
import re
import sys
import warnings
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any

from kode.plain_text import detect_encoding, split_lines

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_Rules = list[tuple[str, "GitIgnoreSpec"]]
"""(folder, its rules), the nearest folder last."""


def walk_files(root: str) -> Iterator[str]:
    """Absolute paths of the regular files at or below `root`, which must be a real path."""
    if os.path.isfile(root):
        yield root
        return
    # An explicit stack: folders may be nested deeper than Python's recursion limit.
    stack = [(root, True, _rules_above(root))]
    while stack:
        path, is_folder, rules = stack.pop()
        if is_folder:
            stack += reversed(list(_scan_folder(path, rules)))
        else:
            yield path


def _scan_folder(folder: str, rules: _Rules) -> Iterator[tuple[str, bool, _Rules]]:
    if os.path.lexists(os.path.join(folder, ".git")):
        # A nested repository: the rules around it do not apply inside.
        rules = []
    if spec := _read_rules(folder):
        rules = [*rules, (folder, spec)]
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: os.fsencode(entry.name))
    except OSError:  # an unreadable folder has nothing for this user
        return
    for entry in entries:
        is_folder = entry.is_dir(follow_symlinks=False)
        is_walked = is_folder or entry.is_file(follow_symlinks=False)
        is_walked = is_walked and entry.name not in (".git", ".hg", ".svn")
        if is_walked and not _is_ignored(entry.path, is_folder, rules):
            yield entry.path, is_folder, rules


def _is_ignored(path: str, is_folder: bool, rules: _Rules) -> bool:
    end = "/" if is_folder else ""
    includes = (
        spec.check_file(path[len(folder.rstrip("/")) + 1 :] + end).include
        for folder, spec in reversed(rules)
    )
    return next((include for include in includes if include is not None), False)


def _read_rules(folder: str) -> "GitIgnoreSpec | None":
    try:
        with open(os.path.join(folder, ".gitignore"), "rb") as file:
            lines = file.read(1024 * 1024).decode("utf-8", "surrogateescape").splitlines()
    except OSError:
        return None
    from pathspec import GitIgnoreSpec

    patterns = list[Any]()
    for line in lines:
        with contextlib.suppress(ValueError):  # it ignores nothing, as in git
            patterns += GitIgnoreSpec.from_lines([line]).patterns
    return GitIgnoreSpec(patterns)


def _rules_above(root: str) -> _Rules:
    """The rules of parent folders; none if they ignore `root` itself: a folder named explicitly is
    searched."""
    rules: _Rules = []
    folder = root
    while not os.path.lexists(os.path.join(folder, ".git")) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
        if spec := _read_rules(folder):
            rules.insert(0, (folder, spec))
    return [] if _is_ignored(root, True, rules) else rules


def _search_file(path: str, pattern: re.Pattern[str], context: int) -> None:
    hits: list[tuple[str, dict[str, Any]]] = []
    # As in ripgrep, an unreadable or binary file has no hits.
    with contextlib.suppress(OSError, ValueError), open(path, "rb") as file:
        hits = list(_find_hits(file, pattern, context))
    name = base64.b64encode(os.fsencode(path)).decode()
    messages = [("begin", {}), *hits, ("end", {"binary_offset": None})] if hits else []
    for kind, data in messages:
        line = json.dumps({"type": kind, "data": {"path": {"bytes": name}, **data}})
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()  # what was found shows if a later file takes too long


def _find_hits(
    file: IO[bytes], pattern: re.Pattern[str], context: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Matches with surrounding lines. Raises: ValueError for a binary file."""
    before: collections.deque[tuple[int, str]] = collections.deque(maxlen=context)
    after = 0
    for number, line in enumerate(_read_lines(file), start=1):
        match = pattern.search(line.removesuffix("\n").removesuffix("\r"))
        if match is None and after > 0:
            after -= 1
            yield "context", _match_object(number, line)
        elif match is None:
            before.append((number, line))
        else:
            for earlier in before:
                yield "context", _match_object(*earlier)
            before.clear()
            after = context
            start = len(line[: match.start()].encode("utf-8", "surrogateescape"))
            yield "match", {**_match_object(number, line), "submatches": [{"start": start}]}


def _read_lines(file: IO[bytes]) -> Iterator[str]:
    """Lines as text. Invalid UTF-8 matches no letter, as in ripgrep, which also reads UTF-16 with a
    byte order mark. Raises: ValueError for a binary file."""
    mark = detect_encoding(file.read(4))
    file.seek(len(mark.bom) if mark else 0)
    if mark is not None and mark.codec.startswith("utf-16"):
        yield from split_lines(file.read().decode(mark.codec, "replace"))
        return
    for raw in file:
        if b"\0" in raw:
            raise ValueError("it has NUL bytes")
        yield raw.decode("utf-8", "surrogateescape")


def _match_object(number: int, line: str) -> dict[str, Any]:
    data = line.encode("utf-8", "surrogateescape")
    try:
        return {"lines": {"text": data.decode("utf-8")}, "line_number": number}
    except UnicodeDecodeError:
        return {"lines": {"bytes": base64.b64encode(data).decode()}, "line_number": number}


def main() -> None:
    question = json.loads(sys.stdin.buffer.read())
    root = os.fsdecode(bytes.fromhex(question["root"]))
    if question["pattern"] is None:
        for path in walk_files(root):
            sys.stdout.buffer.write(os.fsencode(path) + b"\0")
        return
    warnings.simplefilter("ignore")
    try:
        pattern = re.compile(question["pattern"], re.IGNORECASE if question["ignore_case"] else 0)
    except (re.error, OverflowError, RecursionError) as error:
        sys.stderr.write(str(error))
        sys.exit(2)  # as ripgrep
    for path in walk_files(root):
        _search_file(path, pattern, question["context"])


if __name__ == "__main__":
    main()
