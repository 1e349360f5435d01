"""What reading, writing or deleting one path would do. Which paths a command names, its judge
tells."""

import glob
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from kode.permissions import sensitive
from kode.permissions.shell.classes import Sweep
from kode.permissions.shell.judge import Finding, Scene, destructive, safe, system, unknown, write
from kode.permissions.shell.words import FOUND, KEPT, UNKNOWN, Word


def absolute(word: Word, scene: Scene) -> str | None:
    """The path a word means, up to the first piece that is not known; None when even the start
    is not. A glob keeps its marks."""
    text = word.text
    if text.startswith("file://"):
        text = text[len("file://") :]
    if text == "~" or text.startswith("~/"):
        text = scene.where.home + text[1:]
    if not os.path.isabs(text):
        if scene.cwd is None or text.startswith(UNKNOWN):
            return None
        text = f"{scene.cwd}/{text}"
    return os.path.normpath(text) if UNKNOWN not in text else text


def reads_path(word: Word, scene: Scene, *, names_only: bool = False) -> Finding:
    """Reading a file, or (`names_only`) only listing it."""
    path = absolute(word, scene)
    if path is not None and path.startswith(("/dev/fd/", "/dev/stdin", "/dev/null")):
        return safe()
    plain = None if path is None else path.replace(FOUND, "").replace(KEPT, "")
    if (
        path is not None
        and plain is not None
        and not names_only
        and sensitive.is_secret(plain, scene.where)
    ):
        return Finding(
            klass="system", reason="reads what may hold keys", secret=True, reads=(path,)
        )
    if path is None and sensitive.is_secret("/" + word.text.replace(UNKNOWN, ""), scene.where):
        return Finding(klass="system", reason="reads what may hold keys", secret=True)
    if path is None or UNKNOWN in path:
        return unknown("what it reads is not known beforehand")
    if (
        names_only
        and sensitive.is_secret(path, scene.where)
        and (sensitive.place(path, scene.where) != "root")
    ):
        return Finding(klass="unknown", reason="looks where keys are kept", reads=(path,))
    if path.startswith(("/dev/tcp/", "/dev/udp/")):
        return destructive("opens a connection from the shell")
    place = sensitive.place(path, scene.where)
    if place == "protected":
        if sensitive.is_readable(path, scene.where):
            return Finding(klass="safe", reason="reads what may be read of kode", reads=(path,))
        return Finding(klass="system", reason="reads what kode keeps", reads=(path,))
    sweeps = () if names_only else _sweeps(path, word)
    if place in ("root", "temp", "system") or names_only:
        return Finding(klass="safe", reason="only reads", reads=(path,), sweeps=sweeps)
    return Finding(
        klass="unknown", reason="reads outside the project", reads=(path,), sweeps=sweeps
    )


def _sweeps(path: str, word: Word) -> tuple[Sweep, ...]:
    """What a word stands for that names no file: a glob, or whatever was found in a folder."""
    folder, found, names = path.partition(FOUND)
    if found:
        kept = names.startswith(KEPT)
        return (
            Sweep(
                path=folder.rstrip("/") or "/",
                deep=True,
                names=names.removeprefix(KEPT),
                ignored=not kept,
            ),
        )
    return (Sweep(path=path),) if word.glob else ()


def sweeps_below(
    words: Iterable[Word],
    scene: Scene,
    *,
    names: Sequence[str] = ("",),
    hidden: bool = True,
    ignored: bool = True,
    without: Sequence[str] = (),
) -> Finding:
    """Reading all that lies below some folders, the current one where none is named."""
    given = list(words) or [Word(".")]
    folders = [(word, absolute(word, scene)) for word in given]
    return replace(
        safe(),
        sweeps=tuple(
            Sweep(
                path=path,
                deep=True,
                names=name,
                hidden=hidden,
                ignored=ignored,
                without=tuple(without),
            )
            for word, path in folders
            if path is not None and UNKNOWN not in path and FOUND not in path
            for name in names
        ),
    )


def secrets_named(words: list[Word], scene: Scene) -> list[Finding]:
    """Findings for secrets among the arguments of a command that reads files at will."""
    found = []
    for word in words[1:]:
        text = re.sub(r"^(?:--?[\w-]+=?)?@?(?:\w+=@)?", "", word.text) or word.text
        for piece in dict.fromkeys((word.text, text)):
            read = reads_path(Word(piece, word.glob), scene)
            if read.secret:
                found.append(read)
    return found


def writes_path(word: Word, scene: Scene, *, replaces: bool = False) -> Finding:
    """Writing a file or folder; `replaces` when what it held is gone."""
    path = absolute(word, scene)
    if path is None or UNKNOWN in path:
        if sensitive.runs_later("/" + word.text.replace(UNKNOWN, "")):
            return system("writes what other programs run later")
        return unknown("where it writes is not known beforehand")
    if path in ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty") or path.startswith(
        "/dev/fd/"
    ):
        return safe("prints")
    if path == "/proc/sysrq-trigger":
        return destructive("stops the machine")
    if path.startswith("/dev/"):
        return destructive(
            "writes to a device" if "/dev/tcp" not in path else "opens a connection from the shell"
        )
    place = sensitive.place(path, scene.where)
    finding = _writes_at(path, place, scene, replaces)
    return replace(finding, writes=(path,))


def _writes_at(path: str, place: sensitive.Place, scene: Scene, replaces: bool) -> Finding:
    if place == "protected":
        return replace(system("writes in a folder that belongs to kode"), protected=True)
    if sensitive.runs_later(path):
        return system("writes what other programs run later")
    if place in ("home", "system", "elsewhere"):
        return system("writes outside the project")
    if sensitive.is_secret(path, scene.where):
        return system("writes a file that holds keys")
    if replaces and would_lose(path, scene):
        return destructive("replaces a file that has content")
    return write()


def deletes_path(word: Word, scene: Scene) -> Finding:
    """Deleting: lost for good unless a build makes it again."""
    path = absolute(word, scene)
    if path is None or UNKNOWN in path:
        found = destructive("deletes what is not known beforehand")
        return replace(found, discards=(scene.cwd or scene.where.cwd,))
    if sensitive.place(path, scene.where) == "protected":
        return replace(destructive("deletes what belongs to kode"), protected=True, writes=(path,))
    if sensitive.is_rebuildable(path.replace(FOUND, "").replace(KEPT, ""), scene.where):
        return replace(write("deletes what a build makes again"), writes=(path,))
    return replace(destructive("deletes files"), writes=(path,))


_DISPOSABLE = (".log", ".out", ".tmp", ".bak", ".orig")


def is_disposable(path: str, scene: Scene) -> bool:
    """Whether nobody misses what is in a file: a log, or what a build makes again."""
    return path.endswith(_DISPOSABLE) or sensitive.is_rebuildable(path, scene.where)


def would_lose(path: str, scene: Scene) -> bool:
    """Whether writing over a path loses content that nothing makes again."""
    if is_disposable(path, scene):
        return False
    if sensitive.place(path, scene.where) == "temp":
        return False
    if FOUND in path:
        return True
    try:
        there = glob.iglob(path) if glob.has_magic(path) else (path,)
        return any(os.path.isfile(one) and os.path.getsize(one) > 0 for one in there)
    except (OSError, ValueError, re.error):
        return True
