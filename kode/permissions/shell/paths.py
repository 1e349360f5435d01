"""Where a word of a command leads, and what it means to read or write there."""

import glob
import os
import re
from dataclasses import dataclass

from kode.permissions import sensitive
from kode.permissions.sensitive import Ground
from kode.permissions.shell.line import Risk, worst
from kode.permissions.shell.plain import Word

MAX_PATH_CHARS = 1_000
MAX_NAME_CHARS = 255


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


_PATH = re.compile(r"(?!\w+://)(?=[^/.~]*[/.~])[\w@%+=:,./~*?\[\] -]+")

OUTSIDE = "What is changed outside the project stays changed."


def locate(word: Word, cwd: str | None, where: Ground) -> str | None:
    """The absolute path of a word, its `..` kept, since a link may stand before it. None when it
    is not known."""
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


def read(path: str | None, where: Ground) -> Touched:
    """What it means to read a path."""
    if path is None:
        return Touched(risk="unknown", reason="reads a file whose place is not known")
    place = sensitive.place(path, where)
    if sensitive.is_secret(path, where):
        return Touched(
            risk="system",
            reason=f"reads {_short(path, where)}, which is likely to hold keys",
            secret=True,
            reads=(path,),
            outside=place not in ("root", "system"),
        )
    if place == "protected" and not sensitive.is_readable(path, where):
        return Touched(risk="system", reason="reads a folder of kode", reads=(path,), outside=True)
    if place in ("protected", "root", "system"):
        return Touched(reads=(path,))
    return Touched(
        risk="unknown",
        reason=f"reads {_short(path, where)}, outside the project",
        reads=(path,),
        outside=True,
    )


def write(path: str | None, where: Ground) -> Touched:
    """What it means to write, create or delete a path."""
    if path is None:
        return Touched(risk="unknown", reason="writes to a file whose place is not known")
    what, risk, undo = f"writes to {_short(path, where)}", "write", ""
    place = sensitive.place(path, where)
    outside = place != "root"
    if _is_device(path):
        risk, what, undo = "destructive", f"writes to the device {path}", "A device has no undo."
    elif place == "protected":
        risk, what = "system", f"{what}, in a folder of kode"
    elif sensitive.runs_later(path):
        risk, what = "system", f"{what}, which other programs run later"
    elif sensitive.is_secret(path, where):
        risk, what = "system", f"{what}, which is likely to hold keys"
    elif place not in ("root", "temp"):
        risk, what, undo = "system", f"{what}, outside the project", OUTSIDE
    return Touched(
        risk=risk,  # type: ignore[arg-type]
        reason=what,
        undo=undo,
        secret=sensitive.is_secret(path, where),
        protected=place == "protected",
        writes=(path,),
        outside=outside,
    )


def together(*touched: Touched) -> Touched:
    """All of it, with the reason of the worst."""
    if not touched:
        return Touched()
    risk = worst(one.risk for one in touched)
    heaviest = next(one for one in touched if one.risk == risk)
    return Touched(
        risk=risk,
        reason=heaviest.reason,
        undo=" ".join(dict.fromkeys(one.undo for one in touched if one.undo)),
        secret=any(one.secret for one in touched),
        protected=any(one.protected for one in touched),
        reads=tuple(path for one in touched for path in one.reads),
        writes=tuple(path for one in touched for path in one.writes),
        outside=any(one.outside for one in touched),
    )


def looks_like_path(word: Word) -> bool:
    return word.kind != "open" and _PATH.fullmatch(word.text) is not None


def may_be_rebuilt(path: str | None, where: Ground) -> bool:
    """Whether all that lies there is made again by a build, or temporary."""
    return path is not None and sensitive.is_rebuildable(path, where)


def _is_device(path: str) -> bool:
    return (
        path.startswith("/dev/")
        and not path.startswith(("/dev/fd/", "/dev/shm/"))
        and path not in ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty")
    )


def _short(path: str, where: Ground) -> str:
    if sensitive.below(path, where.cwd) and not glob.has_magic(path):
        return os.path.relpath(path, where.cwd)
    return path
