"""What a command does to a file that it names: which path a word means, and the risk of reading or
writing it."""

import glob
import os
import re
from collections.abc import Iterable

from kode.permissions import places
from kode.permissions.places import PathRules
from kode.permissions.shell.line import Part, Risk, worst
from kode.permissions.shell.parse import Word
from kode.workplace import below

MAX_PATH_CHARS = 1_000  # a quarter of PATH_MAX, which no honest path reaches
MAX_NAME_CHARS = 255  # NAME_MAX of linux/limits.h

_PATH = re.compile(r"(?!\w+://)(?=[^/.~]*[/.~])[\w@%+=:,./~*?\[\] -]+")

_LOSES_WHAT_IS_WRITTEN = frozenset(
    f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom")
)


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


def read(path: str | None, where: PathRules) -> Part:
    """The effect of reading a path."""
    if path is None:
        return Part(risk="unknown", reason="reads a file at an unknown path")
    place, what = places.find_place(path, where), f"reads {_relative(path, where)}"
    if places.is_secret(path, where):
        return Part(
            risk="system",
            reason=f"{what}, which is likely to hold keys",
            secret=True,
            reads=(path,),
            outside=place not in ("root", "system"),
            leaves="keys",
        )
    is_hidden = place == "protected" and not places.is_readable(path, where)
    if place in ("protected", "root", "system") and not is_hidden:
        return Part(reads=(path,))
    return Part(
        risk="system" if is_hidden else "unknown",
        reason="reads a folder of kode" if is_hidden else f"{what}, outside the project",
        reads=(path,),
        outside=True,
        leaves="" if places.is_private(path, where) else "place",
    )


def write(path: str | None, where: PathRules) -> Part:
    """The effect of writing, creating or deleting a path."""
    if path is None:
        return Part(risk="unknown", reason="writes to a file at an unknown path")
    if path in _LOSES_WHAT_IS_WRITTEN:
        return Part(writes=(path,))
    what, undo = f"writes to {_relative(path, where)}", ""
    risk: Risk = "system"
    place, is_secret = places.find_place(path, where), places.is_secret(path, where)
    if _is_device(path):
        risk, what = "destructive", f"writes to the device {path}"
        undo = "Writes to a device cannot be undone."
    elif place == "protected":
        what += ", in a folder of kode"
    elif places.runs_later(path, where.git) or places.is_named(path, where):
        what += ", which other programs run later"
    elif is_secret:
        what += ", which is likely to hold keys"
    elif place not in ("root", "temp"):
        what += ", outside the project"
        undo = "Changes outside the project cannot be undone."
    else:
        risk = "write"
    leaves = place != "root" and not places.is_private(path, where)
    return Part(
        risk=risk,
        reason=what,
        undo=undo,
        secret=is_secret,
        protected=place == "protected",
        writes=(path,),
        outside=place != "root",
        leaves="keys" if is_secret else "place" if leaves else "",
    )


def merge(effects: Iterable[Part]) -> Part:
    """Some effects as one, with the reason of the worst."""
    effects = list(effects)
    risk = worst(effect.risk for effect in effects)
    return Part(
        risk=risk,
        reason=next((effect.reason for effect in effects if effect.risk == risk), ""),
        undo=" ".join(dict.fromkeys(effect.undo for effect in effects if effect.undo)),
        secret=any(effect.secret for effect in effects),
        protected=any(effect.protected for effect in effects),
        reads=tuple(dict.fromkeys(path for effect in effects for path in effect.reads)),
        writes=tuple(dict.fromkeys(path for effect in effects for path in effect.writes)),
        outside=any(effect.outside for effect in effects),
        leaves=next((effect.leaves for effect in effects if effect.leaves), ""),
    )


def looks_like_path(word: Word) -> bool:
    """Whether a word of a program that nobody knows may name a file."""
    return word.kind != "open" and _PATH.fullmatch(word.text) is not None


def _is_device(path: str) -> bool:
    is_other = path.startswith(("/dev/fd/", "/dev/shm/"))
    is_stream = path in ("/dev/stdout", "/dev/stderr", "/dev/tty")
    return path.startswith("/dev/") and not is_other and not is_stream


def _relative(path: str, where: PathRules) -> str:
    if below(path, where.cwd) and not glob.has_magic(path):
        return os.path.relpath(path, where.cwd)
    return path
