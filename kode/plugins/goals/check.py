"""The check of a goal, and the files that may not change while the goal is pursued, as values.

Each check runs in a sandbox of its own, which drops what it writes, on the files as they are on
disk. What the session's commands left in their sandbox is not there: what git ignores and nobody
kept, their `/tmp`, the byte code in it.

Three things keep the protected files. The gate refuses a file tool's edit, and what a command in
the sandbox changes in them is not applied: both by rules like a person's `deny edit(...)`. Where a
command ran outside the sandbox, they are put back before the check runs, from copies beside the
session, and what stood there is kept; so is a new file that would be loaded before a module of the
check. And a check counts only if they are unchanged when it has ended.
"""

import asyncio
import fnmatch
import hashlib
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kode.plugin import (
    Contents,
    FileChanges,
    GitError,
    PluginSession,
    StorageError,
    expand_path,
    list_files,
    run_git,
    session_file,
    shorten,
)

Workplace = Any
"""The `place` of a `PluginSession`."""

CONFIG = (
    "conftest.py pytest.ini .pytest.ini pytest.toml .pytest.toml pyproject.toml tox.ini setup.cfg "
    "noxfile.py sitecustomize.py usercustomize.py .coveragerc Makefile makefile GNUmakefile "
    "justfile Justfile package.json jest.config.* vitest.config.* .mocharc.* karma.conf.* .rspec "
    "Rakefile phpunit.xml phpunit.xml.dist"
).split()
"""What says how checks run, wherever it stands: a new one counts as a change, too."""

TEST_FOLDER = re.compile(r"(?:.*/)?(?:tests?|specs?|__tests__|testing)/")
TEST_FILE = re.compile(r"(?:.*/)?(?:test_[^/]*|tests?|[^/]*(?:_tests?|[_.]spec|\.test))\.\w+")

MAX_FILE_BYTES = 64 * 1024 * 1024
"""A larger file is protected by the gate alone."""
_MODULES = (".py", ".pyc", ".so")


@dataclass(frozen=True, kw_only=True)
class ProtectedFiles:
    """What a goal protects. Names and patterns are relative to the project."""

    config: Sequence[str] = ()
    """Names of files that say how checks run, as patterns. Empty: nothing is protected."""
    tests: tuple[str, ...] = ()
    """Folders of tests, each with a final `/`: what is new in them counts as a change, too."""
    held: Mapping[str, str] = field(default_factory=dict)
    """File → digest of its content when the goal began."""
    installed: tuple[str, ...] = ()
    """Folders, each with a final `/`, of the programs and packages that the check may run: nothing
    in them may be edited, but they may hold too much to be compared."""
    folders: Sequence[str] = ()
    """Where the check looks for modules."""
    modules: Sequence[str] = ()
    """That it loads from elsewhere: a new file of this name in a folder would be loaded before."""

    @property
    def rules(self) -> list[str]:
        """The patterns of everything that is protected."""
        folders = (f"./{name}**" for name in (*self.tests, *self.installed))
        return sorted({*self.config, *(f"./{name}" for name in self.held), *folders})

    def denials(self) -> dict[str, str]:
        """What the gate denies to edit, and why."""
        why = (
            " is protected as long as the goal is pursued: its check runs or reads it. "
            "Change what is checked instead."
        )
        return {rule: rule.removeprefix("./") + why for rule in self.rules}


def make_guard(command: str, opens: Any, place: Workplace) -> ProtectedFiles:
    """The guard of a goal with this check, whose first run has opened `opens`. Reads the project;
    call it in a thread.

    It has the tests that the command names (see `_find_tests`), or else all of the project; the
    scripts that the check runs before it opens a test, since what tests run is what they test; what
    says how checks run (`CONFIG`); and the programs and packages installed in the project.
    """
    guard = ProtectedFiles(installed=tuple(_find_installed(place)))
    files, inside = _list_files(guard, place), opens.project
    tests = _find_tests(command, files, place)
    first = next((at for at, name in enumerate(inside) if is_test(name)), len(inside))
    names = tests | ({*inside[: first + 1]} & {*files} & {*opens.scripts})
    folders_of_tests = tuple(name for name in tests if name.endswith("/"))
    guard = replace(guard, config=CONFIG, tests=folders_of_tests)
    names.update(_find_matching(guard, place))
    held = {name: state for name in sorted(names) if (state := read_state(name, place))}
    searched = {os.path.dirname(name) or "." for name in inside if name in held}
    for folder in (place.project / name for name in inside):
        if folder.is_dir() and not (folder / "__init__.py").exists():
            searched.add(os.path.relpath(folder, place.project))
    folders = sorted(name for name in searched if not f"{name}/".startswith(guard.installed))
    packages = (str(place.project / name) for name in inside if name.startswith(guard.installed))
    modules = {_name_module(path) for path in (*opens.elsewhere, *packages)} - {""}
    stems = {_file_stem(path.name) for name in folders for path in (place.project / name).glob("*")}
    return replace(guard, held=held, folders=folders, modules=sorted(modules - stems))


def _file_stem(name: str) -> str:
    return name.partition(".")[0]


def _name_module(path: str) -> str:
    """The module that a file is, if it is found by its name alone; "" for a part of a package."""
    folder, name = os.path.split(path)
    if not name.endswith(_MODULES) or not os.path.isfile(path):
        return ""
    if _file_stem(name) == "__init__":
        folder, name = os.path.split(folder)
    return "" if os.path.exists(os.path.join(folder, "__init__.py")) else _file_stem(name)


def _find_shadowing(guard: ProtectedFiles, place: Workplace) -> Iterator[str]:
    """The files that would be loaded before the modules that the first check loaded."""
    for folder in guard.folders:
        for path in (place.project / folder).glob("*"):
            path = path / "__init__.py" if path.is_dir() else path
            module = path.parent.name if path.name == "__init__.py" else _file_stem(path.name)
            if module in guard.modules and path.suffix in _MODULES:
                yield str(path.relative_to(place.project))


def _list_files(guard: ProtectedFiles, place: Workplace) -> list[str]:
    """The files of the project, without what git ignores, is installed or is byte code."""
    names = list_files(place.project)
    return [n for n in names if not n.startswith(guard.installed) and "__pycache__/" not in n]


def _find_matching(guard: ProtectedFiles, place: Workplace) -> Iterator[str]:
    """The files that are protected by their names or folders. What git ignores counts by its name,
    and only outside of a folder that git ignores: a folder of tests may have data of any size."""
    flags = ("-z", "--others", "--ignored", "--exclude-standard", "--directory")
    try:
        ignored = run_git(place.project, ["ls-files", *flags]).decode("utf-8", "surrogateescape")
    except GitError:
        ignored = ""
    for name in _list_files(guard, place):
        if name.startswith(guard.tests) or _is_config(name):
            yield name
    for name in ignored.split("\0"):
        if _is_config(name) and not name.startswith(guard.installed):
            yield name


def _is_config(name: str) -> bool:
    return any(fnmatch.fnmatchcase(os.path.basename(name), pattern) for pattern in CONFIG)


def _find_tests(command: str, files: Sequence[str], place: Workplace) -> set[str]:
    """The files and the tests in folders that a command names, and beside a named test what else is
    in its test folder and is no test; a test folder that it names as a whole, with a final `/`.
    Where it names none of these, every test."""
    words = re.split(r"[\s;|&<>()'\"=]+|::", command)
    names: set[str] = set()
    for path in {Path(os.path.normpath(place.cwd / expand_path(word))) for word in words if word}:
        name = os.path.relpath(path, place.project)
        folder = f"{name}/".removeprefix("./") if path.is_dir() else _test_folder(name)
        if path.is_dir() and _test_folder(folder) == folder != "":
            names.add(folder)
        elif name in files:
            names.add(name)
        below = (file for file in files if file.startswith(folder) and (folder or path.is_dir()))
        names |= {
            file
            for file in below
            if is_test(file) and (path.is_dir() or not TEST_FILE.fullmatch(file))
        }
    return names or {*filter(is_test, files)}


def is_test(name: str) -> bool:
    """Whether a file is a test by its name or folder, or belongs to one."""
    return _test_folder(name) != "" or TEST_FILE.fullmatch(name) is not None


def _test_folder(name: str) -> str:
    """The innermost test folder that a file is in, with a final `/`; "" for none."""
    match = TEST_FOLDER.match(name)
    return match[0] if match else ""


def _find_installed(place: Workplace) -> Iterator[str]:
    """Folders of the project with programs and packages that a check may run."""
    search = place.environment.get("PATH", "").split(":")
    programs = {Path(os.path.normpath(place.cwd / folder)) for folder in search}
    for path in sorted({*place.project.iterdir(), *place.cwd.iterdir(), *programs}):
        if path == place.project or not path.is_relative_to(place.project) or not path.is_dir():
            continue
        if path in programs or path.name == "node_modules" or (path / "pyvenv.cfg").is_file():
            yield f"{path.relative_to(place.project)}/"


def read_state(name: str, place: Workplace) -> str:
    """The digest of a file of the project, or the target of a link; "" for anything else."""
    seen = open_copies(Path(os.devnull)).read_state(_real_path(name, place))
    return (seen.state or "") if seen.has_content else ""


def find_differing(guard: ProtectedFiles, place: Workplace) -> list[str]:
    """The protected files that are not as they were when the goal began: changed, gone, or new."""
    if not guard.config:
        return []
    changed = [name for name, state in guard.held.items() if read_state(name, place) != state]
    new = dict.fromkeys((*_find_matching(guard, place), *_find_shadowing(guard, place)))
    return [*changed, *(name for name in new if name not in guard.held and read_state(name, place))]


def keep_copies(guard: ProtectedFiles, opened: PluginSession) -> None:
    """Keeps the content of what is protected beside the session, to put it back. Raises:
    StorageError."""
    if opened.session.id is not None and guard.held:
        folder = session_file(opened.place.home, opened.session.id).with_suffix("") / "goals"
        open_copies(folder).save(_real_path(name, opened.place) for name in guard.held)


def restore_protected(guard: ProtectedFiles, opened: PluginSession) -> list[str]:
    """Makes the protected files as they were, where there are copies beside the session, and keeps
    what stood there; returns those that it made so."""
    if opened.session.id is None:
        return []
    copies = open_copies(
        session_file(opened.place.home, opened.session.id).with_suffix("") / "goals"
    )
    restored = []
    for name in find_differing(guard, opened.place):
        path = opened.place.project / name
        try:
            (seen,) = copies.save([_real_path(name, opened.place)]).values()
            if seen.state is not None and not seen.has_content:
                continue
            copies.restore(path, guard.held.get(name), seen.mode)
        except (OSError, StorageError):  # no copy, or a link on the way: the check will not count
            continue
        restored.append(name)
    return restored


def _real_path(name: str, place: Workplace) -> str:
    """Where a file of the project lies, which may be a link itself."""
    path = place.project / name
    return str(path.parent.resolve() / path.name)


def open_copies(folder: Path) -> Contents:
    """The copies of protected files in this folder."""
    return Contents(folder=folder, max_file_bytes=MAX_FILE_BYTES, max_bytes=64 * MAX_FILE_BYTES)


CHECK_S = 900.0
"""A check may take so long, if the goal has as much left."""
FIRST_S = 120.0
"""The one before the first attempt: what it has opened until then counts."""
LEAST_S = 10.0
OUTPUT_CHARS = 6_000
"""Of a check's output, its end: where most programs say what failed."""

_RUN = 'exec /bin/bash -o pipefail -c "$0" 2>&1'
"""A pipeline fails where any part of it does: `pytest | tail` would always pass. Errors and output
come in the order in which they are written, or warnings would stand for the end of the output."""


@dataclass(frozen=True, kw_only=True)
class CheckRun:
    """How a check ended."""

    exit_status: int | None
    """None if it did not start or end."""
    fault: str
    """Why there is no exit status, a phrase that completes "it ..."."""
    output: str
    tree: str
    """Digest of the files of the project that it opened, as they are on disk."""


async def run_check(
    session: Any, command: str, what: str, timeout_s: float
) -> tuple[CheckRun, Any]:
    """Runs a check to its end or `timeout_s`; returns how it ended, and what it opened, relative to
    the project: nothing where the sandbox cannot tell. `what` says to the person what it is for."""
    session.note_work(f"{what}: {shorten(command, 1000)}")
    place = session.agent.place
    try:
        line = ("/bin/bash", "-c", _RUN, command)
        ran, opens = await session.run_program(line, min(CHECK_S, timeout_s))
    finally:
        session.note_work("")
    blocked = ran.blocked if ran.exit_code != 0 else ()
    lines = (f"[In the sandbox it {hit.words}, which is not possible there.]" for hit in blocked)
    output = "\n".join(filter(None, (ran.stdout.rstrip(), *lines)))
    if len(output) > OUTPUT_CHARS:
        output = f"[...]\n{output[-OUTPUT_CHARS:]}"
    inside, scripts = (
        _relative_names(paths, place.project) for paths in (opens.project, opens.scripts)
    )
    # Files that are not known are never the same.
    files = sorted(inside) or [str(time.time_ns())]
    tree = await asyncio.to_thread(lambda: [(name, read_state(name, place)) for name in files])
    check = CheckRun(
        exit_status=ran.exit_code,
        fault=ran.fault,
        output=output,
        tree=hashlib.sha256(repr(tree).encode("utf-8", "replace")).hexdigest()[:16],
    )
    return check, replace(opens, project=inside, scripts=scripts)


def _relative_names(opens: Iterable[str], project: Path) -> tuple[str, ...]:
    """The names of files below the project, without those of git; no others."""
    inside = (path for path in opens if Path(path).is_relative_to(project))
    names = (os.path.relpath(path, project) for path in inside)
    return tuple(name for name in names if ".git" not in name.split("/"))


def changed_files(opened: PluginSession, first: int, more: Iterable[str]) -> list[str]:
    """The names of the files that the turns from `first` on have changed, as undo knows them;
    `more` are paths of others."""
    session_id, project = opened.session.id, opened.place.project
    past = FileChanges()
    if session_id is not None:
        past = FileChanges(session_file(opened.place.home, session_id).with_suffix(""))
    groups = (group for group in reversed(past.groups) if group.turn.number >= first)
    paths = (path for group in groups for path in group.changed)
    return [
        os.path.relpath(path, project) if Path(path).is_relative_to(project) else path
        for path in dict.fromkeys((*paths, *more))
    ]
