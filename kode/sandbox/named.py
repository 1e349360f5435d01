"""Which files of a project other programs run because a setting names them.

Git runs what its settings name (hooks, filters, drivers, aliases); the hooks of a project, its
editors' tasks and what `npm install` runs name scripts in turn. So the settings are read, instead
of guessing by names. A word of a setting that leads to a file of the project counts, whichever
setting it is: git has dozens that run a program. What a program loads without being told by such a
text (an import) is not followed.
"""

import json
import os
import re
from collections.abc import Iterator
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
_SHELL = re.compile(rb"#!.*\b(?:ba|da|k|z)?sh\b")
_MAKES = re.compile(r"\bg?make\b")
_NODE = re.compile(r"\b(?:npm|pnpm|yarn|bun)\b")
_RULE = re.compile(r"^([^\s:#=][^:#=\n]*):(?!=)([^\n]*)\n((?:\t[^\n]*\n?)*)", re.MULTILINE)
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_RUN_BY_INSTALLING = (
    "preinstall", "install", "postinstall", "prepublish", "preprepare", "prepare", "postprepare",
)  # fmt: skip


@dataclass
class Named:
    """Absolute paths of files and folders in `root` that settings name; they are read again when
    one of the files that they are from has changed. Never raises."""

    root: Path
    _stamps: dict[str, tuple[int, int] | None] = field(default_factory=dict)
    """Each file that was looked for → its time of change (ns) and size; None for a missing one."""
    _found: frozenset[str] = frozenset()

    def __call__(self) -> frozenset[str]:
        if not self._stamps or any(_stamp(path) != was for path, was in self._stamps.items()):
            reading = _Reading(str(self.root))
            reading.read_all()
            self._found = frozenset(reading.found)
            self._stamps = {path: _stamp(path) for path in reading.looked_at}
        return self._found


@dataclass
class _Reading:
    root: str
    found: set[str] = field(default_factory=set)
    looked_at: set[str] = field(default_factory=set)
    """All that the result depends on."""
    texts: set[str] = field(default_factory=set)
    made: set[str] = field(default_factory=set)
    """Targets of the Makefile that hooks or tasks run."""

    def read_all(self) -> None:
        hooks = self._git_settings()
        self.looked_at.add(f"{self.root}/package.json")
        self._scripts(_RUN_BY_INSTALLING)
        for path in (hooks, *(f"{self.root}/{name}" for name in places.names("names_programs"))):
            for file in self._files_in(path):
                self._text_of(file)

    def _git_settings(self) -> str:
        """Takes in what git's settings name; returns the folder of its hooks."""
        folder, shared = settings_folders(self.root)
        hooks = f"{shared}/hooks"
        self.looked_at.update((f"{shared}/config", f"{folder}/config.worktree"))
        if not os.path.lexists(f"{self.root}/.git"):
            return hooks
        try:
            listed = run_git(
                Path(self.root), ["config", "--list", "--show-origin", "--null"], timeout_s=GIT_S
            )
        except GitError:
            return hooks
        records = os.fsdecode(listed).split("\0")
        for origin, setting in zip(records[::2], records[1::2], strict=False):
            kind, _, source = origin.partition(":")
            if kind != "file":
                continue  # of kode itself, or of this process
            source = os.path.normpath(os.path.join(self.root, source))
            self.looked_at.add(source)
            name, _, value = setting.partition("\n")
            if name.startswith("include") and name.endswith(".path"):
                included = self._inside(value, os.path.dirname(source))
                self.found.update(included)
                self.looked_at.update(included)
            elif name == "core.hookspath":
                for hooks in self._inside(value):
                    self.found.add(hooks)
            elif value not in ("true", "false") and not value.isdigit():
                own = below_any(source, (self.root, folder, shared))
                for word in _words(value):
                    for path in self._inside(word):
                        if "/" in word or ((own or "." in word) and _is_program(path)):
                            self.found.add(path)
        return hooks

    def _files_in(self, path: str) -> Iterator[str]:
        """A file, or those in a folder and its folders; not the samples that git does not run."""
        self.looked_at.add(path)
        if not os.path.isdir(path):
            yield path
        for here, folders, names in os.walk(path):
            folders[:] = folders if here == path else []
            self.looked_at.add(here)
            for name in sorted(names):
                if not name.endswith(".sample"):
                    yield os.path.join(here, name)

    def _text_of(self, path: str) -> None:
        """Takes in the files that a text names, and follows those that are shell scripts."""
        if path in self.texts or len(self.texts) >= MAX_TEXTS:
            return
        self.texts.add(path)
        self.looked_at.add(path)
        raw = _read(path)
        if raw:
            self._text(_COMMENT.sub("", raw.decode(errors="replace")), os.path.dirname(path))

    def _text(self, text: str, folder: str) -> None:
        words = frozenset(_words(text))
        for word in words:
            for path in self._inside(word, self.root, folder):
                if path not in self.found and _is_program(path):
                    if path.endswith(".sh") or _SHELL.match(_read(path)):
                        self._text_of(path)
                    self.found.add(path)
        if _MAKES.search(text):
            self._targets(words)
        if _NODE.search(text) and os.path.isfile(f"{self.root}/package.json"):
            self.found.add(f"{self.root}/package.json")
            self._scripts(words)

    def _targets(self, words: frozenset[str]) -> None:
        for name in _MAKEFILES:
            path = f"{self.root}/{name}"
            rules = _RULE.findall(_read(path).decode(errors="replace"))
            if not rules:
                continue
            self.found.add(path)
            self.looked_at.add(path)
            known = {target for targets, _, _ in rules for target in targets.split()}
            wanted = words & known or {rules[0][0].split()[0]}
            while wanted := wanted - self.made:
                self.made |= wanted
                used = [rule for rule in rules if wanted & set(rule[0].split())]
                for _, _, recipe in used:
                    self._text(recipe, self.root)
                wanted = known & {need for _, needs, _ in used for need in needs.split()}

    def _scripts(self, names: "frozenset[str] | tuple[str, ...]") -> None:
        try:
            scripts = json.loads(_read(f"{self.root}/package.json") or b"{}").get("scripts", {})
            texts = [scripts[name] for name in names if isinstance(scripts.get(name), str)]
        except (ValueError, AttributeError, RecursionError):
            return
        for text in texts:
            for word in _words(text):
                self.found.update(filter(os.path.isfile, self._inside(word)))

    def _inside(self, word: str, *folders: str) -> list[str]:
        """The paths in the project that a word may mean; its root is none. The rest of
        `$(git rev-parse --show-toplevel)/x`, `/x`, is meant from the root."""
        word = str(expand(word))
        paths = [os.path.normpath(os.path.join(folder, word)) for folder in folders or (self.root,)]
        if os.path.isabs(word) and not below(paths[0], self.root):
            bases = folders or (self.root,)
            paths = [os.path.normpath(f"{folder}/{word}") for folder in bases]
        return [path for path in paths if path != self.root and below(path, self.root)]


def _is_program(path: str) -> bool:
    """Whether a word for this path may mean a file: one that is there, or a missing one that may be
    made, if its name has an ending."""
    return os.path.isfile(path) or (not os.path.lexists(path) and os.path.splitext(path)[1] != "")


def _words(text: str) -> Iterator[str]:
    for word in _WORD.findall(text):
        if "://" not in word and len(word) < 300:
            yield word


def _read(path: str) -> bytes:
    """The beginning of a regular file; b"" for anything else."""
    try:
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(path, flags), "rb") as file:
            return file.read(MAX_TEXT_BYTES)
    except (OSError, ValueError):
        return b""


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size
