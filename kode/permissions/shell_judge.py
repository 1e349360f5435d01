"""What a verb's judgment is made of, and the judgments about single paths.

A `Finding` says what one command would do; `Scene` is what it may know. Which command does what is
in `shell_verbs`, `shell_git` and `shell_table`.
"""

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from kode.permissions import sensitive
from kode.permissions.shell_class import ORDER, PartClass, ShellClass, Sweep
from kode.permissions.shell_words import FOUND, KEPT, UNKNOWN, Word

RunText = Callable[[str], tuple[PartClass, ...]]
RunWords = Callable[[list[Word]], tuple[PartClass, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """What comes in through a pipe or a here-document."""

    parts: tuple[PartClass, ...] = ()
    """The commands that write into the pipe."""
    text: str | None = None
    """The very text, where it is known."""
    names: tuple[str, ...] = ()
    """For a list of files of the project: words that stand for them (`./` and `FOUND`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    where: sensitive.Ground
    cwd: str | None
    """None after a `cd` to a place that is not known."""
    feed: Feed | None
    downloads: bool
    """Whether a substitution in the command's own words asks another machine."""
    run_text: RunText
    """Judges a text as a command line of its own."""
    run_words: RunWords
    """Judges words as a command of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    klass: ShellClass
    reason: str
    development: bool = False
    secret: bool = False
    protected: bool = False
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    discards: tuple[str, ...] = ()
    sweeps: tuple[Sweep, ...] = ()
    """Folders in which it loses work that is in no commit."""
    more: tuple[PartClass, ...] = ()
    """Commands it runs in turn."""


def safe(reason: str = "only reads") -> Finding:
    return Finding(klass="safe", reason=reason)


def unknown(reason: str) -> Finding:
    return Finding(klass="unknown", reason=reason)


def system(reason: str) -> Finding:
    return Finding(klass="system", reason=reason)


def destructive(reason: str) -> Finding:
    return Finding(klass="destructive", reason=reason)


def network(reason: str) -> Finding:
    return Finding(klass="network", reason=reason)


def write(reason: str = "changes files of the project") -> Finding:
    return Finding(klass="write", reason=reason)


def development(reason: str = "runs the project's own code") -> Finding:
    return Finding(klass="unknown", reason=reason, development=True)


def together(first: Finding, *others: Finding) -> Finding:
    """The worst of several findings, with the marks of all."""
    found = (first, *others)
    heaviest = max(found, key=lambda one: ORDER.index(one.klass))
    return replace(
        heaviest,
        development=heaviest.klass == "unknown"
        and all(one.development for one in found if one.klass == "unknown"),
        secret=any(one.secret for one in found),
        protected=any(one.protected for one in found),
        reads=tuple(path for one in found for path in one.reads),
        writes=tuple(path for one in found for path in one.writes),
        discards=tuple(path for one in found for path in one.discards),
        sweeps=tuple(sweep for one in found for sweep in one.sweeps),
        more=tuple(part for one in found for part in one.more),
    )


def with_more(finding: Finding, more: Iterable[PartClass]) -> Finding:
    return replace(finding, more=(*finding.more, *more))


# ── paths ────────────────────────────────────────────────────────────────────────────────────


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
        for piece in {word.text, text}:
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


def would_lose(path: str, scene: Scene) -> bool:
    """Whether writing over a path loses content that nothing makes again."""
    if path.endswith(_DISPOSABLE) or sensitive.is_rebuildable(path, scene.where):
        return False
    if sensitive.place(path, scene.where) == "temp":
        return False
    try:
        return os.path.isfile(path) and os.path.getsize(path) > 0
    except (OSError, ValueError):
        return True


# ── options ──────────────────────────────────────────────────────────────────────────────────


def positionals(words: list[Word], takes_value: Iterable[str] = ()) -> list[Word]:
    """The words that are no options, without the values of options that take one. `--` ends
    options."""
    with_value = set(takes_value)
    out: list[Word] = []
    rest = iter(words)
    for word in rest:
        if word.text == "--":
            return [*out, *rest]
        if word.text.startswith("-") and word.text != "-":
            if word.text in with_value:
                next(rest, None)
            continue
        out.append(word)
    return out


def option_values(words: list[Word], names: Iterable[str]) -> list[Word]:
    """The values of options: `-o x`, `-ox`, `--output x`, `--output=x`, `--outp=x`."""
    out: list[Word] = []
    known = tuple(names)
    for index, word in enumerate(words):
        if word.text == "--":
            break
        for name in known:
            if word.text == name and index + 1 < len(words):
                out.append(words[index + 1])
            elif name.startswith("--") and _abbreviates(word.text, name):
                if "=" in word.text:
                    out.append(Word(word.text.split("=", 1)[1], word.glob))
                elif index + 1 < len(words):
                    out.append(words[index + 1])
            elif (
                len(name) == 2
                and word.text.startswith("-")
                and not word.text.startswith("--")
                and name[1] in word.text[1:]
                and word.text != name
            ):
                cluster = word.text.split(name[1], 1)[1]
                out.append(
                    Word(cluster, word.glob)
                    if cluster
                    else words[index + 1]
                    if index + 1 < len(words)
                    else Word(UNKNOWN)
                )
    return out


def has_option(words: list[Word], *names: str) -> bool:
    """Whether an option is given: alone, in a cluster (`-xvf`), with a value or abbreviated."""
    for word in words:
        text = word.text
        if text == "--":
            return False
        if not text.startswith("-"):
            continue
        for name in names:
            if text == name:
                return True
            if name.startswith("--"):
                if _abbreviates(text, name):
                    return True
            elif len(name) == 2 and not text.startswith("--") and name[1] in text[1:]:
                return True
    return False


def _abbreviates(text: str, name: str) -> bool:
    """GNU tools take any beginning of a long option."""
    given = text.split("=", 1)[0]
    return len(given) > 3 and name.startswith(given)
