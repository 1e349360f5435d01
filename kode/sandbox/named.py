"""Which files of a project other programs run because a setting names them.

Git runs what its settings name (hooks, filters, drivers, aliases); the hooks of a project, its
editors' tasks and what `npm install` runs name scripts in turn. A word of a setting that leads to a
file of the project counts, whichever setting it is: git has dozens that run a program. What a
program loads without being told by such a text (an import) is not followed.
"""

import contextlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from kode.errors import GitError
from kode.git import run_git, settings_folders
from kode.paths import expand_path
from kode.permissions import places
from kode.sandbox.reach import read_regular
from kode.values import dataclass, field
from kode.workplace import is_below

GIT_S = 3.0  # `git config --list` takes milliseconds
MAX_TEXTS = 200  # nobody sets up more by hand
MAX_TEXT_BYTES = 64 * 1024  # longer texts are not read for names

_WORD = re.compile(r"[^\s\"'`;|&<>(){}\[\]=,$!\\]+")
_COMMENT = re.compile(r"^[ \t]*(?:#|//).*", re.MULTILINE)
_SHELL = re.compile(r"#!.*\b(?:ba|da|k|z)?sh\b")
_MAKE, _NPM = re.compile(r"\bg?make\b"), re.compile(r"\b(?:npm|pnpm|yarn|bun)\b")
"""Programs that run what a file in the project's root says: a makefile, `package.json`."""
_RUN_BY_INSTALLING = (
    "preinstall", "install", "postinstall", "prepublish", "preprepare", "prepare", "postprepare",
)  # fmt: skip


def find_named(root: Path) -> frozenset[str]:
    """Returns the absolute paths of files and folders in `root` that settings name. Takes some
    milliseconds, since it runs git. Never raises."""
    search = _NameSearch(root, f"{root}/package.json")
    search.add_texts(search.read_git_settings())
    search.add_texts(*[f"{root}/{name}" for name in places.names("names_programs")])
    search.take_scripts(_RUN_BY_INSTALLING)
    for path in search.texts:  # the loop adds to it
        search.take_words(
            _COMMENT.sub("", read_regular(path, MAX_TEXT_BYTES)), os.path.dirname(path)
        )
    return frozenset(search.paths)


@dataclass
class _NameSearch:
    root: Path
    manifest: str
    paths: set[str] = field(default_factory=set)
    texts: list[str] = field(default_factory=list)
    """The files to read for names, and those that have been read."""

    def read_git_settings(self) -> str:
        """Adds the paths that git's settings name; returns the folder of its hooks."""
        hooks, records = f"{settings_folders(str(self.root))[1]}/hooks", list[str]()
        if os.path.lexists(self.root / ".git"):
            words = ["config", "--list", "--show-origin", "--null"]
            with contextlib.suppress(GitError):
                records = os.fsdecode(run_git(self.root, words, timeout_s=GIT_S)).split("\0")
        for origin, setting in zip(records[::2], records[1::2], strict=False):
            name, _, value = setting.partition("\n")
            # A setting that is from no file was made by kode, or by this process's environment.
            if not origin.startswith("file:") or value in ("true", "false") or value.isdigit():
                continue
            source = os.path.normpath(self.root / origin.removeprefix("file:"))
            folders = [os.path.dirname(source)] if name.endswith(".path") else []
            for word in _split_words(value):
                is_path = "/" in word or name == "core.hookspath" or bool(folders)
                for path in self._find_inside(word, *folders):
                    if is_path or _is_program(path):
                        self.paths.add(path)
                        hooks = path if name == "core.hookspath" else hooks
        return hooks

    def add_texts(self, *paths: str) -> None:
        """Adds files, or those in a folder, two levels deep; not git's samples, which never run."""
        for top in map(Path, filter(os.path.exists, paths)):
            inside = [*top.glob("*"), *top.glob("*/*")] if top.is_dir() else [top]
            files = (it for it in sorted(inside) if it.is_file() and it.suffix != ".sample")
            new = [path for path in map(str, files) if path not in self.texts]
            self.texts += new[: MAX_TEXTS - len(self.texts)]

    def take_words(self, text: str, folder: str) -> None:
        """Adds the programs that a text names, and reads those that say in turn what they run."""
        words = {path for word in _split_words(text) for path in self._find_inside(word, folder)}
        for path in filter(_is_program, words - self.paths):
            self.paths.add(path)
            if path.endswith(".sh") or _SHELL.match(read_regular(path, MAX_TEXT_BYTES)):
                self.add_texts(path)
        names = ("GNUmakefile", "makefile", "Makefile") if _MAKE.search(text) else ()
        makefiles = [path for name in names if os.path.isfile(path := f"{self.root}/{name}")]
        self.paths |= {*makefiles}
        self.add_texts(*makefiles)
        if _NPM.search(text) and os.path.isfile(self.manifest) and self.manifest not in self.paths:
            self.paths.add(self.manifest)
            self.take_scripts()

    def take_scripts(self, only: Iterable[str] = ()) -> None:
        """Adds what the manifest's scripts name: these scripts only, or all of them."""
        with contextlib.suppress(ValueError, AttributeError, RecursionError):
            scripts = json.loads(read_regular(self.manifest, MAX_TEXT_BYTES)).get("scripts", {})
            for name in only or scripts:
                self.take_words(str(scripts.get(name, "")), str(self.root))

    def _find_inside(self, word: str, *folders: str) -> Iterator[str]:
        """Yields the paths in the project, never its root, that a word may mean from the root or a
        folder. The rest of `$(git rev-parse --show-toplevel)/x`, `/x`, is meant from the root."""
        root, word = str(self.root), str(expand_path(word))
        if os.path.isabs(word) and not is_below(os.path.normpath(word), root):
            word = word.lstrip("/")
        paths = {os.path.normpath(os.path.join(base, word)) for base in (root, *folders)}
        yield from (path for path in paths if path != root and is_below(path, root))


def _is_program(path: str) -> bool:
    """Whether a word for this path may mean a program: an existing file, or a missing one that may
    still be made, if its name has an extension."""
    return os.path.isfile(path) or (not os.path.lexists(path) and os.path.splitext(path)[1] != "")


def _split_words(text: str) -> list[str]:
    return [word for word in _WORD.findall(text) if "://" not in word and len(word) < 300]
