"""The check of a goal, and the files that may not change while the goal is pursued.

Each check runs on the files as they are on disk, in a sandbox of its own that discards what the
check writes. It does not see what exists only in the sandbox of the session's commands: ignored
files that nobody kept, their `/tmp`, byte code.

Three things protect the files. The gate refuses edits by file tools, and changes that a command in
the sandbox makes to them are not applied, both by rules like a person's `deny edit(...)`. In case a
command ran outside the sandbox, they are restored before the check from copies beside the session;
changed versions are kept, and new files that would shadow a module of the check are moved away.
Last, a check counts only if the protected files are unchanged when it has ended.
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
"""Files, in any folder, that say how checks run: a new one counts as a change, too."""

TEST_FOLDER = re.compile(r"(?:.*/)?(?:tests?|specs?|__tests__|testing)/")
TEST_FILE = re.compile(r"(?:.*/)?(?:test_[^/]*|tests?|[^/]*(?:_tests?|[_.]spec|\.test))\.\w+")

MAX_FILE_BYTES = 64 * 1024 * 1024
"""A larger file is not copied: only the gate protects it."""
_MODULES = (".py", ".pyc", ".so")


@dataclass(frozen=True, kw_only=True)
class ProtectedFiles:
    """What a goal protects. Names and patterns are relative to the project."""

    config: Sequence[str] = ()
    """Patterns for the names of files that say how checks run. Empty: nothing is protected."""
    tests: tuple[str, ...] = ()
    """Folders of tests, each with a final `/`: a new file in them counts as a change, too."""
    held: Mapping[str, str] = field(default_factory=dict)
    """File → digest of its content when the goal began."""
    installed: tuple[str, ...] = ()
    """Folders, each with a final `/`, of the programs and packages that the check may run: nothing
    in them may be edited, but they may hold too much to be compared."""
    folders: Sequence[str] = ()
    """Where the check looks for modules."""
    modules: Sequence[str] = ()
    """Names of modules it loads from elsewhere: a new file of that name would shadow one."""

    @property
    def rules(self) -> list[str]:
        """The patterns of everything that is protected."""
        folders = (f"./{name}**" for name in (*self.tests, *self.installed))
        return sorted({*self.config, *(f"./{name}" for name in self.held), *folders})

    def denials(self) -> dict[str, str]:
        """Pattern of files that the gate must not let be edited → the reason for the model."""
        why = (
            " is protected as long as the goal is pursued: its check runs or reads it. "
            "Change what is checked instead."
        )
        return {rule: rule.removeprefix("./") + why for rule in self.rules}


def make_guard(command: str, opens: Any, place: Workplace) -> ProtectedFiles:
    """The guard of a goal with this check; `opens` are the files that its first run opened. Reads
    the project: call it in a thread.

    It protects the tests that the command names (see `_find_tests`), or all if it names none; the
    scripts that the check runs before it opens a test (later ones are what the tests test); the
    files that say how checks run (`CONFIG`); and programs and packages installed in the project.
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
    """The name of the top-level module in a file; "" for part of a package or no module."""
    folder, name = os.path.split(path)
    if not name.endswith(_MODULES) or not os.path.isfile(path):
        return ""
    if _file_stem(name) == "__init__":
        folder, name = os.path.split(folder)
    return "" if os.path.exists(os.path.join(folder, "__init__.py")) else _file_stem(name)


def _find_shadowing(guard: ProtectedFiles, place: Workplace) -> Iterator[str]:
    """Files in searched folders that would be loaded instead of modules the first check loaded."""
    for folder in guard.folders:
        for path in (place.project / folder).glob("*"):
            path = path / "__init__.py" if path.is_dir() else path
            module = path.parent.name if path.name == "__init__.py" else _file_stem(path.name)
            if module in guard.modules and path.suffix in _MODULES:
                yield str(path.relative_to(place.project))


def _list_files(guard: ProtectedFiles, place: Workplace) -> list[str]:
    """The files of the project, without ignored ones, installed ones and byte code."""
    names = list_files(place.project)
    return [n for n in names if not n.startswith(guard.installed) and "__pycache__/" not in n]


def _find_matching(guard: ProtectedFiles, place: Workplace) -> Iterator[str]:
    """The files that are protected by their names or folders. A file that git ignores counts only
    by its name, and not in an ignored folder: data in a test folder may have any size."""
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
    """The files that a command names; the tests in other folders that it names; a test folder that
    it names, as one name with a final `/`; and the helpers in the test folder of a named test. If
    the command names none of these, every test of the project."""
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
    """The protected files that changed, are gone or are new since the goal began."""
    if not guard.config:
        return []
    changed = [name for name, state in guard.held.items() if read_state(name, place) != state]
    new = dict.fromkeys((*_find_matching(guard, place), *_find_shadowing(guard, place)))
    return [*changed, *(name for name in new if name not in guard.held and read_state(name, place))]


def keep_copies(guard: ProtectedFiles, opened: PluginSession) -> None:
    """Copies the protected files into a folder beside the session, to restore them from. Raises:
    StorageError."""
    if opened.session.id is not None and guard.held:
        folder = session_file(opened.place.home, opened.session.id).with_suffix("") / "goals"
        open_copies(folder).save(_real_path(name, opened.place) for name in guard.held)


def restore_protected(guard: ProtectedFiles, opened: PluginSession) -> list[str]:
    """Restores the protected files that differ, as far as there are copies, after keeping a copy of
    the present content. Returns the files that it restored or removed."""
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
    """The path of a file of the project with links in its folder resolved, but not its own."""
    path = place.project / name
    return str(path.parent.resolve() / path.name)


def open_copies(folder: Path) -> Contents:
    """The copies of protected files in this folder."""
    return Contents(folder=folder, max_file_bytes=MAX_FILE_BYTES, max_bytes=64 * MAX_FILE_BYTES)


CHECK_S = 900.0
"""Time limit of a check; that which remains to the goal may be shorter."""
FIRST_S = 120.0
"""Time limit of the check before the first attempt: files it opened until then count."""
LEAST_S = 10.0
OUTPUT_CHARS = 6_000
"""How much of the end of a check's output is kept: most programs say there what failed."""

_RUN = 'exec /bin/bash -o pipefail -c "$0" 2>&1'
"""`pipefail`, because `pytest | tail` would otherwise always pass. Standard error is merged in the
order of writing, or else its warnings would count as the end of the output."""


@dataclass(frozen=True, kw_only=True)
class CheckRun:
    """How a check ended."""

    exit_status: int | None
    """None if it did not start or end."""
    fault: str
    """Why there is no exit status, a phrase that completes "it ..."."""
    output: str
    tree: str
    """Digest of the project's files that the check opened, as they are on disk afterwards."""


async def run_check(
    session: Any, command: str, what: str, timeout_s: float
) -> tuple[CheckRun, Any]:
    """Runs a check, for at most `timeout_s`. Returns how it ended, and the files that it opened,
    relative to the project: none if the sandbox cannot tell. The person is shown `what` it is."""
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
    # If the opened files are unknown, the digest must differ from every other.
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
    """The paths inside the project, made relative to it; git's own files are left out."""
    inside = (path for path in opens if Path(path).is_relative_to(project))
    names = (os.path.relpath(path, project) for path in inside)
    return tuple(name for name in names if ".git" not in name.split("/"))


def changed_files(opened: PluginSession, first: int, more: Iterable[str]) -> list[str]:
    """The files that the turns from `first` on have changed, according to the records of undo, and
    those at the paths `more`; relative to the project if they are in it."""
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
