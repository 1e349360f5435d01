"""Which files of a project other programs run because a setting names them.

Git runs what its settings name (hooks, filters, drivers, aliases); the hooks of a project, its
editors' tasks and what `npm install` runs name scripts in turn. So the settings are read, instead
of guessing by names. A word of a setting that leads to a file of the project counts, whichever
setting it is: git has dozens that run a program. What a program loads without being told by such a
text (an import) is not followed.
"""

import contextlib
import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from kode.errors import GitError
from kode.git import run_git, settings_folders
from kode.paths import expand
from kode.permissions import places
from kode.workplace import below, below_any

GIT_S = 3.0  # `git config --list` takes milliseconds
MAX_TEXTS = 200  # more are not what a person set up
MAX_TEXT_BYTES = 64 * 1024  # longer texts are not read for names

_WORD = re.compile(r"[^\s\"'`;|&<>(){}\[\]=,$!\\]+")
_COMMENT = re.compile(r"^[ \t]*(?:#|//).*", re.MULTILINE)
_SHELL = re.compile(r"#!.*\b(?:ba|da|k|z)?sh\b")
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_OBEYED = (
    (re.compile(r"\bg?make\b"), _MAKEFILES),
    (re.compile(r"\b(?:npm|pnpm|yarn|bun)\b"), ("package.json",)),
)
"""Programs, and the files in the project's root that say what each runs."""
_RULE = re.compile(r"^([^\s:#=][^:#=\n]*):(?!=)([^\n]*\n(?:\t[^\n]*\n?)*)", re.MULTILINE)
"""The targets of a rule of a Makefile; what they need, and the recipe."""
_RUN_BY_INSTALLING = (
    "preinstall", "install", "postinstall", "prepublish", "preprepare", "prepare", "postprepare",
)  # fmt: skip

Stamp = tuple[int, int] | None
"""When a file changed (ns), and its size; None for a missing one."""


@dataclass
class Named:
    """Absolute paths of files and folders in `root` that settings name; they are read again when
    one of the files that they are from has changed. Never raises."""

    root: Path
    _last: "_Reading | None" = None

    def __call__(self) -> frozenset[str]:
        stamps = self._last.stamps.items() if self._last is not None else ()
        if self._last is None or any(_stamp(path) != stamp for path, stamp in stamps):
            reading = _Reading(str(self.root))
            reading.read_all()
            self._last = reading
        return frozenset(self._last.paths)


@dataclass
class _Reading:
    root: str
    paths: set[str] = field(default_factory=set)
    stamps: dict[str, Stamp] = field(default_factory=dict)
    """Of each file that the result depends on, from before it was read."""
    texts: list[str] = field(default_factory=list)
    """The files to read for names, and those that have been read."""
    obeyed: set[tuple[str, str]] = field(default_factory=set)
    """File and target, or script, that have been read."""

    def read_all(self) -> None:
        hooks = self._read_git_settings()
        self._obey("package.json", _RUN_BY_INSTALLING)
        for path in (hooks, *(f"{self.root}/{name}" for name in places.names("names_programs"))):
            self._add_texts(path)
        for path in self.texts:  # which grows meanwhile
            self._watch(path)
            self._take_words(_COMMENT.sub("", _read(path)), os.path.dirname(path))

    def _watch(self, *files: str) -> None:
        self.stamps |= {path: _stamp(path) for path in files}

    def _read_git_settings(self) -> str:
        """Takes in what git's settings name; returns the folder of its hooks."""
        folder, shared = settings_folders(self.root)
        hooks, own = f"{shared}/hooks", (self.root, folder, shared)
        self._watch(f"{shared}/config", f"{folder}/config.worktree")
        if not os.path.lexists(f"{self.root}/.git"):
            return hooks
        try:
            words = ["config", "--list", "--show-origin", "--null"]
            records = os.fsdecode(run_git(Path(self.root), words, timeout_s=GIT_S)).split("\0")
        except GitError:
            return hooks
        for origin, setting in zip(records[::2], records[1::2], strict=False):
            name, _, value = setting.partition("\n")
            # What is from no file is of kode itself, or of this process.
            if not origin.startswith("file:") or value in ("true", "false") or value.isdigit():
                continue
            source = os.path.normpath(os.path.join(self.root, origin.removeprefix("file:")))
            self._watch(source)
            is_included = name.endswith(".path")
            is_path, is_own = is_included or name == "core.hookspath", below_any(source, own)
            for word in _words(value):
                for path in self._inside(word, os.path.dirname(source) if is_included else ""):
                    if is_path or "/" in word or ((is_own or "." in word) and _is_program(path)):
                        self.paths.add(path)
                        self._watch(path)
                        hooks = path if name == "core.hookspath" else hooks
        return hooks

    def _add_texts(self, path: str) -> None:
        """A file, or those in a folder and its folders; not the samples that git does not run."""
        self._watch(path)
        files = [] if os.path.isdir(path) else [path]
        for folder, folders, names in os.walk(path):
            folders[:] = folders if folder == path else []
            self._watch(folder)
            files += [f"{folder}/{name}" for name in sorted(names) if not name.endswith(".sample")]
        new = [file for file in files if file not in self.texts]
        self.texts += new[: MAX_TEXTS - len(self.texts)]

    def _take_words(self, text: str, folder: str) -> None:
        """Takes in the files that a text names, and adds those that say in turn what they run."""
        paths = {path for word in _words(text) for path in self._inside(word, folder)}
        for path in filter(_is_program, paths - self.paths):
            self.paths.add(path)
            if path.endswith(".sh") or _SHELL.match(_read(path)):
                self._add_texts(path)
        for program, names in _OBEYED:
            for name in names if program.search(text) else ():
                if os.path.isfile(f"{self.root}/{name}"):
                    self.paths.add(f"{self.root}/{name}")
                    self._obey(name, _words(text))

    def _obey(self, name: str, words: Iterable[str]) -> None:
        """Takes in what the targets of a Makefile run that these words name, else its first one;
        likewise the scripts of a manifest."""
        path, is_manifest = f"{self.root}/{name}", name == "package.json"
        self._watch(path)
        parts = _scripts(path) if is_manifest else _targets(path)
        waiting = [word for word in words if word in parts]
        if not waiting and not is_manifest:
            waiting = [target for target in parts if not target.startswith(".")][:1]
        while waiting:
            part = waiting.pop()
            if (name, part) not in self.obeyed:
                self.obeyed.add((name, part))
                self._take_words(parts[part], self.root)
                more = () if is_manifest else _words(parts[part])
                waiting += [word for word in more if word in parts]

    def _inside(self, word: str, folder: str = "") -> list[str]:
        """The paths in the project that a word may mean, from its root or from a folder; its root
        is none. The rest of `$(git rev-parse --show-toplevel)/x`, `/x`, is meant from there."""
        word = str(expand(word))
        if os.path.isabs(word) and not below(os.path.normpath(word), self.root):
            word = word.lstrip("/")
        bases = (self.root, folder) if folder else (self.root,)
        paths = dict.fromkeys(os.path.normpath(os.path.join(base, word)) for base in bases)
        return [path for path in paths if path != self.root and below(path, self.root)]


def _targets(makefile: str) -> dict[str, str]:
    """What each target of a Makefile needs and runs, in their order."""
    parts = dict[str, str]()
    for targets, text in _RULE.findall(_COMMENT.sub("", _read(makefile))):
        for target in targets.split():
            parts[target] = parts.get(target, "") + text
    return parts


def _scripts(manifest: str) -> dict[str, str]:
    with contextlib.suppress(ValueError, AttributeError, RecursionError):
        scripts = json.loads(_read(manifest)).get("scripts", {})
        return {str(name): str(script) for name, script in scripts.items()}
    return {}


def _is_program(path: str) -> bool:
    """Whether a word for this path may mean a file: one that is there, or a missing one that may be
    made, if its name has an ending."""
    return os.path.isfile(path) or (not os.path.lexists(path) and os.path.splitext(path)[1] != "")


def _words(text: str) -> list[str]:
    return [word for word in _WORD.findall(text) if "://" not in word and len(word) < 300]


def _read(path: str) -> str:
    """The beginning of a regular file; "" for anything else."""
    with contextlib.suppress(OSError, ValueError):
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(path, flags), "rb") as file:
            return file.read(MAX_TEXT_BYTES).decode(errors="replace")
    return ""


def _stamp(path: str) -> Stamp:
    with contextlib.suppress(OSError, ValueError):
        status = os.stat(path)
        return status.st_mtime_ns, status.st_size
    return None
