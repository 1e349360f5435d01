"""Resolves a word of a command to a path, and judges reading or writing it."""

import glob
import os
import re
from dataclasses import dataclass

from kode.permissions import places
from kode.permissions.places import PathRules
from kode.permissions.shell.line import Leaves, Risk, worst
from kode.permissions.shell.plain import Word
from kode.workplace import below

MAX_PATH_CHARS = 1_000  # a quarter of PATH_MAX, which no honest path reaches
MAX_NAME_CHARS = 255  # NAME_MAX of linux/limits.h


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """What a command does to the files that it names."""

    risk: Risk = "safe"
    reason: str = ""
    undo: str = ""
    secret: bool = False
    protected: bool = False
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    outside: bool = False
    leaves: Leaves = ""


_PATH = re.compile(r"(?!\w+://)(?=[^/.~]*[/.~])[\w@%+=:,./~*?\[\] -]+")

_LOSES_WHAT_IS_WRITTEN = frozenset(
    f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom")
)

OUTSIDE = "Changes outside the project cannot be undone."


def locate(word: Word, cwd: str | None, where: PathRules) -> str | None:
    """The absolute path of a word, with its `..`, because a link may precede it. None if
    unknown."""
    text = word.text
    if word.kind == "open" or not text or len(text) > MAX_PATH_CHARS or "\0" in text:
        return None
    if word.kind == "pattern" and text.startswith("~"):
        if text != "~" and not text.startswith("~/"):
            return None
        text = where.home + text[1:]
    if not os.path.isabs(text) and cwd is None:
        return None
    path = os.path.join(cwd or "/", text)
    if len(os.path.basename(path)) > MAX_NAME_CHARS:
        return None
    return path if ".." in path.split("/") else os.path.normpath(path)


def read(path: str | None, where: PathRules) -> Touched:
    """The effect of reading a path."""
    if path is None:
        return Touched(risk="unknown", reason="reads a file at an unknown path")
    place = places.find_place(path, where)
    if places.is_secret(path, where):
        return Touched(
            risk="system",
            reason=f"reads {_short(path, where)}, which is likely to hold keys",
            secret=True,
            reads=(path,),
            outside=place not in ("root", "system"),
            leaves="keys",
        )
    if place == "protected" and not places.is_readable(path, where):
        return Touched(
            risk="system",
            reason="reads a folder of kode",
            reads=(path,),
            outside=True,
            leaves="place",
        )
    if place in ("protected", "root", "system"):
        return Touched(reads=(path,))
    return Touched(
        risk="unknown",
        reason=f"reads {_short(path, where)}, outside the project",
        reads=(path,),
        outside=True,
        leaves="" if places.is_private(path, where) else "place",
    )


def write(path: str | None, where: PathRules) -> Touched:
    """The effect of writing, creating or deleting a path."""
    if path is None:
        return Touched(risk="unknown", reason="writes to a file at an unknown path")
    if path in _LOSES_WHAT_IS_WRITTEN:
        return Touched(writes=(path,))
    what, risk, undo = f"writes to {_short(path, where)}", "write", ""
    place = places.find_place(path, where)
    outside, secret = place != "root", places.is_secret(path, where)
    if _is_device(path):
        risk, what, undo = (
            "destructive",
            f"writes to the device {path}",
            "Writes to a device cannot be undone.",
        )
    elif place == "protected":
        risk, what = "system", f"{what}, in a folder of kode"
    elif places.runs_later(path, where.git) or places.is_named(path, where):
        risk, what = "system", f"{what}, which other programs run later"
    elif secret:
        risk, what = "system", f"{what}, which is likely to hold keys"
    elif place not in ("root", "temp"):
        risk, what, undo = "system", f"{what}, outside the project", OUTSIDE
    return Touched(
        risk=risk,  # type: ignore[arg-type]
        reason=what,
        undo=undo,
        secret=secret,
        protected=place == "protected",
        writes=(path,),
        outside=outside,
        leaves="keys"
        if secret
        else ("place" if outside and not places.is_private(path, where) else ""),
    )


def together(*touched: Touched) -> Touched:
    """Merges effects, with the reason of the worst."""
    if not touched:
        return Touched()
    risk = worst(effect.risk for effect in touched)
    heaviest = next(effect for effect in touched if effect.risk == risk)
    return Touched(
        risk=risk,
        reason=heaviest.reason,
        undo=" ".join(dict.fromkeys(effect.undo for effect in touched if effect.undo)),
        secret=any(effect.secret for effect in touched),
        protected=any(effect.protected for effect in touched),
        reads=tuple(path for effect in touched for path in effect.reads),
        writes=tuple(path for effect in touched for path in effect.writes),
        outside=any(effect.outside for effect in touched),
        leaves=next((effect.leaves for effect in touched if effect.leaves), ""),
    )


def looks_like_path(word: Word) -> bool:
    return word.kind != "open" and _PATH.fullmatch(word.text) is not None


def may_be_rebuilt(path: str | None, where: PathRules) -> bool:
    """Whether everything there is temporary or regenerated by a build."""
    return path is not None and places.is_rebuildable(path, where)


def _is_device(path: str) -> bool:
    return (
        path.startswith("/dev/")
        and not path.startswith(("/dev/fd/", "/dev/shm/"))
        and path not in ("/dev/stdout", "/dev/stderr", "/dev/tty")
    )


def _short(path: str, where: PathRules) -> str:
    if below(path, where.cwd) and not glob.has_magic(path):
        return os.path.relpath(path, where.cwd)
    return path
