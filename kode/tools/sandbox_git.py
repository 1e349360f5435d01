"""Git in the sandbox: which of its folders may be changed, and what in them stays as it is.

Index, refs and objects are work; hooks and settings are run later, by whoever uses git next, so
they stay. That goes for the common folder of linked worktrees and for submodules, too. Putting
back what a mount cannot hold is `sandbox_guard`'s.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Hold = Literal["change", "keep", "no file", "no folder"]
"""May be changed; stays as it is; is not there and stays so."""

Held = tuple[Hold, Path]

_MAX_MODULES = 100
_MAX_WORKTREES = 50
"""Each takes a few descriptors while a command starts. Of more, none may be changed."""
_MAX_DEPTH = 5

_RUN_LATER = ("hooks", "config", "config.worktree", "commondir")
_NAMES_OF_FILES = re.compile(r"(?im)^\s*(hooksPath|path)\s*=\s*\"?([^\"\n]+?)\"?\s*$")


@dataclass(frozen=True, kw_only=True)
class Repository:
    """What git keeps of one folder of work."""

    common: Path
    """Objects, refs, hooks, settings."""
    own: Path
    """Index and HEAD of this folder: `common`, or below it for a linked worktree."""


def repositories(folders: Sequence[Path]) -> list[Repository]:
    """The repositories of folders (real paths); one that is not what it claims is left out."""
    found = [repository(folder) for folder in folders]
    return list(dict.fromkeys(each for each in found if each is not None))


def repository(folder: Path) -> Repository | None:
    """The repository whose working tree begins at `folder`."""
    dot = folder / ".git"
    if not is_plain(dot):
        return None
    if dot.is_dir():
        return Repository(common=dot, own=dot) if (dot / "HEAD").exists() else None
    text = _text(dot)
    if not text.startswith("gitdir:"):
        return None
    own = _joined(folder, text.removeprefix("gitdir:"))
    # The file lies where commands may write, so it could point anywhere. Only a folder that knows
    # of this one itself is believed: there, commands may not write.
    if own.parent.name == "worktrees" and _joined(own, _text(own / "gitdir")) == dot:
        common = own.parent.parent
        known = _joined(own, _text(own / "commondir")) == common
        return Repository(common=common, own=own) if known else None
    worktree = re.search(r"(?m)^\s*worktree\s*=\s*(.+?)\s*$", _text(own / "config"))
    if worktree and is_plain(own / "config") and _joined(own, worktree[1]) == folder:
        return Repository(common=own, own=own)
    return None


def held(folders: Sequence[Path]) -> Iterator[Held]:
    """What may be changed and what not, in this order: what comes later lies on top. What may be
    changed is named down to each repository: a mount cannot be renamed away, what it lies in can.
    """
    found = repositories(folders)
    for common in dict.fromkeys(each.common for each in found):
        yield from _held_in(common)
        if all(each.own != common for each in found):
            # The folder of work of the common one is somebody else's.
            names = (name for name in ("HEAD", "index") if _is_there(common, name))
            yield from (("keep", common / name) for name in names)


def _held_in(git: Path) -> Iterator[Held]:
    yield ("change", git)
    yield from (("keep", git / name) for name in _RUN_LATER if _is_there(git, name))
    if not os.path.lexists(git / "hooks"):
        yield ("no folder", git / "hooks")
    if not os.path.lexists(git / "config"):
        yield ("no file", git / "config")
    if (
        not os.path.lexists(git / "config.worktree")
        and "worktreeconfig" in _text(git / "config").lower()
    ):
        yield ("no file", git / "config.worktree")
    yield from _modules_held(git)
    if _is_there(git, "worktrees"):
        names = sorted(os.listdir(git / "worktrees"))
        crowded = len(names) > _MAX_WORKTREES
        yield ("keep" if crowded else "change", git / "worktrees")
        for name in () if crowded else names:
            yield from _worktree_held(git / "worktrees" / name)


def _worktree_held(own: Path) -> Iterator[Held]:
    """What a linked worktree belongs to, and settings of its own, stay."""
    if is_plain(own) and own.is_dir():
        yield ("change", own)
        names = ("commondir", "gitdir", "config.worktree")
        yield from (("keep", own / name) for name in names if _is_there(own, name))
        yield from _modules_held(own)


def _modules_held(git: Path) -> Iterator[Held]:
    if _is_there(git, "modules"):
        yield ("keep", git / "modules")
        for module in _modules(git / "modules"):
            yield from _held_in(module)


def _modules(folder: Path, depth: int = 0) -> list[Path]:
    """The repositories of submodules; a name with a slash is a folder in a folder."""
    found: list[Path] = []
    for name in sorted(os.listdir(folder)):
        path = folder / name
        if len(found) >= _MAX_MODULES or not is_plain(path) or not path.is_dir():
            continue
        if (path / "HEAD").is_file():
            found.append(path)
        elif depth < _MAX_DEPTH:
            found += _modules(path, depth + 1)
    return found


def named_by_settings(folder: Path) -> Iterator[Path]:
    """What the settings make run of a working tree: other hooks, more settings."""
    git = repository(folder)
    if git is None:
        return
    for name, value in _NAMES_OF_FILES.findall(_text(git.common / "config")):
        path = _joined(folder if name.lower() == "hookspath" else git.common, value)
        if folder in path.parents and path.exists():
            yield path


def changeable(folders: Sequence[Path]) -> list[Path]:
    """The folders of git, those of submodules included."""
    return list(dict.fromkeys(path for hold, path in held(folders) if hold == "change"))


def guarded(folders: Sequence[Path]) -> list[Path]:
    """The folders of git, and the files that lead to them."""
    leading = (folder / ".git" for folder in folders if repository(folder) is not None)
    return [*changeable(folders), *(path for path in leading if path.is_file())]


def is_plain(path: Path) -> bool:
    """Whether it is there, and no link is on the way: a mount follows links, and commands make
    them."""
    return os.path.lexists(path) and os.path.realpath(path) == str(path)


def _is_there(folder: Path, name: str) -> bool:
    return is_plain(folder / name)


def _text(path: Path) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read(65_536).strip()
    except (OSError, ValueError):
        return ""


def _joined(folder: Path, text: str) -> Path:
    path = text.strip().replace("\0", "")
    return Path(os.path.realpath(os.path.join(folder, path or ".")))
