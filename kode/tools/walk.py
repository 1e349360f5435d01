"""Every file below a folder that version control does not ignore, in the order of their paths.

What is done with them is not known here. This is how ripgrep walks, for where it is missing:
nested `.gitignore` files and those of the folders above up to the repository's root, hidden files
included, `.git` and its like left out, symlinks not followed.
"""

import os
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

SKIPPED = (".git", ".hg", ".svn")
"""Never entered, whatever `.gitignore` says."""

_Rules = list[tuple[str, "GitIgnoreSpec"]]
"""(folder, its rules), the nearest folder last."""


def walk(root: str) -> Iterator[str]:
    """Absolute paths of the regular files at or below `root`, which is a real path."""
    if os.path.isfile(root):
        yield root
        return
    # An explicit stack: folders may be nested deeper than Python's recursion allows.
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
        # A repository of its own: the rules around it do not reach into it.
        rules = []
    own = _rules_of(folder)
    rules = [*rules, (folder, own)] if own is not None else rules
    try:
        names = sorted(os.listdir(folder), key=os.fsencode)
    except OSError:
        # A folder that may not be read holds nothing for this user.
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
            # A line that is no pattern ignores nothing, as in git.
            continue
        specs.append(line)
    return GitIgnoreSpec.from_lines(specs)


def _rules_above(root: str) -> _Rules:
    """The rules of the folders above, without those that ignore `root` itself: a folder that was
    asked for by name is looked into."""
    rules: _Rules = []
    folder = root
    while not os.path.lexists(os.path.join(folder, ".git")) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
        spec = _rules_of(folder)
        if spec is None:
            continue
        relative = os.path.relpath(root, folder) + "/"
        kept = [p for p in spec.patterns if not (p.include and p.match_file(relative) is not None)]
        rules.insert(0, (folder, type(spec)(kept)))
    return rules
