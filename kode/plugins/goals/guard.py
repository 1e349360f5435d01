"""The files that may not change while a goal is pursued, as values: which, and their content.

Three things keep them. The gate refuses a file tool's edit, and what a command in the sandbox
changes in them is not applied: both by rules like a person's `deny edit(...)`. Where a command ran
outside the sandbox, they are put back before the check runs, from copies beside the session, and
what stood there is kept; so is a new file that would be loaded before a module of the check. And a
check counts only if they are unchanged when it has ended.
"""

import hashlib
import os
import re
import shlex
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from kode.plugin import (
    GitError,
    Opened,
    Opens,
    Rule,
    Workplace,
    beneath,
    durable,
    matches_path,
    paths,
    run_git,
)

NONE = "none"
"""The pattern that protects nothing."""

CONFIG = (
    "conftest.py pytest.ini .pytest.ini pytest.toml .pytest.toml pyproject.toml tox.ini setup.cfg "
    "noxfile.py sitecustomize.py usercustomize.py .coveragerc Makefile makefile GNUmakefile "
    "justfile Justfile package.json jest.config.* vitest.config.* .mocharc.* karma.conf.* .rspec "
    "Rakefile phpunit.xml phpunit.xml.dist"
).split()
"""What says how checks run, wherever it stands: a new one counts as a change, too."""

TEST_FOLDERS = frozenset("test tests spec specs __tests__ testing".split())
TEST_FILE = re.compile(r"(?:test_.*|tests?|.*_tests?|.*[_.]spec|.*\.test)\.\w+")

NAMED = "the goal says so"
INSTALLED = "the check may run it"
BEFORE = "it would stand before what the check runs"

MAX_LISTED = 50_000
"""Files of a project without git that are looked at."""
MAX_COPIED_BYTES = 16 * 1024 * 1024
"""A larger file is compared, and not put back."""
_MODULES = (".py", ".pyc", ".so")
_WILD = frozenset("*?")
_SKIPPED = frozenset((".git", "node_modules", "__pycache__"))


@dataclass(frozen=True, kw_only=True)
class Guard:
    """What a goal protects. Paths and patterns are relative to the project."""

    rules: Mapping[str, str]
    """Pattern of an `edit` rule → what it stands for, in few words."""
    held: Mapping[str, str]
    """File → digest of its content when the goal began."""
    folders: Sequence[str] = ()
    """Folders of the project in which the check looks for modules."""
    modules: Sequence[str] = ()
    """That it loads from elsewhere: a new file of this name in a folder would be loaded before."""

    def denials(self) -> tuple[Rule, ...]:
        """What the gate denies."""
        return tuple(
            Rule(
                "edit",
                pattern,
                f"{pattern.removeprefix('./')} is protected as long as the goal is pursued: {why}. "
                "Change what is checked instead. Only the person can allow it, with `--protect`.",
            )
            for pattern, why in self.rules.items()
        )


def make_guard(command: str, protect: Sequence[str] | None, place: Workplace) -> Guard:
    """The guard of a goal with this check. Reads the project; call it in a thread.

    By default it has every file that a word of the command names, a test folder that one names as a
    whole, the tests in any other folder that one names, and beside a named test what else is in its
    test folder and is no test. Where the command names none of these, every test of the project:
    what is in a folder of `TEST_FOLDERS`, or called like `TEST_FILE`. Then what says how checks run
    (`CONFIG`), the programs and packages installed in the project, and names that would stand
    before a program or module that the command runs.
    """
    if protect is not None and not protect:
        return Guard(rules={}, held={})
    files = listed(place)
    if protect is None:
        rules = dict.fromkeys(_tests(command, files, place), "the goal's check runs it")
    else:
        rules = dict.fromkeys(protect, NAMED)
    rules |= dict.fromkeys(CONFIG, "it says how checks run")
    rules |= {f"{name}/**": INSTALLED for name in _installed(place)}
    rules |= dict.fromkeys(_before(command, place), BEFORE)
    return Guard(rules=rules, held=_held(rules, [*files, *_ignored(rules, place)], place))


def extend_guard(guard: Guard, opens: Opens, place: Workplace) -> Guard:
    """The guard with what the first check has run. Reads the project; call it in a thread.

    A script counts unless a test was opened before it: what tests run is what they test. Patterns
    of the person take the place of scripts, as of tests.
    """
    if not guard.rules:
        return guard
    inside, files = opens.project, set(listed(place))
    first = next((at for at, name in enumerate(inside) if name in files and is_test(name)), None)
    until = {*inside} if first is None else {*inside[: first + 1]}
    scripts = set() if NAMED in guard.rules.values() else {*opens.scripts} & files & until
    rules = {f"./{name}": "the goal's check runs it" for name in sorted(scripts)}
    held = {name: digest_at(place, name) for name in sorted(scripts)}
    installed = tuple(one[2:-2] for one, why in guard.rules.items() if why == INSTALLED)
    programs = {os.path.dirname(name) or "." for name in inside if name in {*scripts, *guard.held}}
    searched = {
        name
        for name in inside
        if (place.project / name).is_dir() and not (place.project / name / "__init__.py").exists()
    }
    folders = sorted(one for one in programs | searched if not f"{one}/".startswith(installed))
    packages = (str(place.project / name) for name in inside if name.startswith(installed))
    modules = {_module_of(path) for path in (*opens.elsewhere, *packages)} - {""}
    there = {_stem(name) for folder in folders for name in _names_in(place.project / folder)}
    return Guard(
        rules={**guard.rules, **rules},
        held={**guard.held, **held},
        folders=folders,
        modules=sorted(modules - there),
    )


def _names_in(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _stem(name: str) -> str:
    return name.partition(".")[0]


def _module_of(path: str) -> str:
    """The module that a file is, if it is found by its name alone; "" for a part of a package."""
    folder, name = os.path.split(path)
    if not name.endswith(_MODULES) or not os.path.isfile(path):
        return ""
    if _stem(name) == "__init__":
        folder, name = os.path.split(folder)
    return "" if os.path.exists(os.path.join(folder, "__init__.py")) else _stem(name)


def _shadowing(guard: Guard, place: Workplace) -> Iterator[str]:
    """The files that would be loaded before the modules that the first check loaded."""
    modules = set(guard.modules)
    for folder in guard.folders:
        for name in _names_in(place.project / folder):
            path = os.path.normpath(os.path.join(folder, name))
            if _stem(name) not in modules:
                continue
            if name.endswith(_MODULES):
                yield path
            elif (place.project / path / "__init__.py").exists():
                yield f"{path}/__init__.py"


def listed(place: Workplace) -> list[str]:
    """The files of the project that git tracks or would, or all, relative to it."""
    try:
        names = _git_lists(place, "--cached", "--others", "--exclude-standard")
    except GitError:
        return list(_walked(place.project))
    return sorted({name for name in names if os.path.lexists(place.project / name)})


def _ignored(rules: Mapping[str, str], place: Workplace) -> list[str]:
    """The protected ones that git ignores."""
    try:
        names = _git_lists(place, "--others", "--ignored", "--exclude-standard")
    except GitError:
        return []
    return _among_ignored(names, rules, place)


def _git_lists(place: Workplace, *arguments: str) -> list[str]:
    names = run_git(place.project, ["ls-files", "-z", *arguments])
    return names.decode("utf-8", "surrogateescape").split("\0")[:-1]


def _among_ignored(names: Iterable[str], rules: Mapping[str, str], place: Workplace) -> list[str]:
    """Those that are protected though git may ignore them: by their own names, and what would stand
    before what the check runs. A folder of tests may have data of any size that git ignores."""
    installed = tuple(one[2:-2] for one, why in rules.items() if why == INSTALLED)
    named = {one: why for one, why in rules.items() if why == BEFORE or not one.endswith("/**")}
    covered = covering(named, place)
    return [
        one
        for one in names
        if not one.startswith(installed) and _SKIPPED.isdisjoint(one.split("/")) and covered(one)
    ]


def _walked(root: Path) -> Iterator[str]:
    count = 0
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(
            one
            for one in folders
            if one not in _SKIPPED and not os.path.exists(os.path.join(folder, one, "pyvenv.cfg"))
        )
        for name in sorted(names):
            count += 1
            if count > MAX_LISTED:
                return
            yield os.path.relpath(os.path.join(folder, name), root)


def _tests(command: str, files: Sequence[str], place: Workplace) -> list[str]:
    """The patterns of the tests that a command names, or of all."""
    found: dict[str, None] = {}
    for word in words_of(command):
        for name in _paths_in(word, place):
            path = place.project / name
            if path.is_file():
                found[f"./{name}"] = None
                if is_test(name) and (folder := _test_folder(name)):
                    beside = (one for one in files if one.startswith(f"{folder}/"))
                    found |= {f"./{one}": None for one in beside if not _is_test_file(one)}
            elif name != "." and os.path.basename(name) in TEST_FOLDERS:
                found[f"./{name}/**"] = None
            else:
                below = (one for one in files if name == "." or one.startswith(f"{name}/"))
                found |= {f"./{one}": None for one in below if is_test(one)}
    return [*found] or [f"./{name}" for name in files if is_test(name)]


def words_of(command: str) -> list[str]:
    """The words of a shell command, without operators."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        return list(lexer)
    except ValueError:  # quotes that do not close: bash will say so
        return command.split()


def _paths_in(word: str, place: Workplace) -> Iterator[str]:
    """What exists of the paths that a word may mean, also in `PATH::TEST` and `--flag=PATH`."""
    for part in {word, word.partition("=")[2], word.partition("::")[0]}:
        if not part or part.startswith("-") or "\0" in part:
            continue
        path = os.path.normpath(place.cwd / paths.expand(part))
        if os.path.exists(path) and Path(path).is_relative_to(place.project):
            yield os.path.relpath(path, place.project)


def is_test(name: str) -> bool:
    """Whether a file is a test by its name or folder, or belongs to one."""
    return bool(_test_folder(name)) or _is_test_file(name)


def _is_test_file(name: str) -> bool:
    return TEST_FILE.fullmatch(os.path.basename(name)) is not None


def _test_folder(name: str) -> str:
    """The innermost test folder that a file is in; "" for none."""
    parts = name.split("/")[:-1]
    last = max((at for at, part in enumerate(parts) if part in TEST_FOLDERS), default=-1)
    return "/".join(parts[: last + 1])


def _installed(place: Workplace) -> Iterator[str]:
    """Folders of the project with programs and packages that a check may run."""
    seen = set()
    for folder in (place.project, place.cwd):
        for path in sorted(folder.iterdir()):
            if path.name == "node_modules" or (path / "pyvenv.cfg").is_file():
                seen.add(path)
    for entry in place.environment.get("PATH", "").split(":"):
        path = Path(os.path.normpath(os.path.join(place.cwd, entry)))
        if path != place.project and path.is_relative_to(place.project) and path.is_dir():
            seen.add(path)
    yield from sorted(f"./{path.relative_to(place.project)}" for path in seen)


def _before(command: str, place: Workplace) -> Iterator[str]:
    """Files and folders that do not exist, and would be run in the place of a program or module
    that the command names: `pytest.py` beside `python -m pytest`."""
    search = place.environment.get("PATH")
    for word in dict.fromkeys(words_of(command)):
        known = word.isidentifier() and (
            word in sys.stdlib_module_names or shutil.which(word, path=search) or word == "pytest"
        )
        here = place.cwd / word
        if known and not here.exists() and not here.with_suffix(".py").exists():
            name = os.path.relpath(here, place.project)
            yield from (f"./{name}", f"./{name}.py", f"./{name}/**")


def _held(rules: Mapping[str, str], files: Sequence[str], place: Workplace) -> dict[str, str]:
    covered = covering(rules, place)
    named = (one.removeprefix("./") for one in rules if one.startswith("./"))
    names = dict.fromkeys((*filter(covered, files), *named))
    return {name: digest for name in names if (digest := digest_at(place, name))}


def covering(rules: Mapping[str, str], place: Workplace) -> Callable[[str], bool]:
    """Says whether a file is protected for its content: not what is installed in the project, of
    which there may be very much."""
    patterns = [pattern for pattern, why in rules.items() if why != INSTALLED]
    exact = {one.removeprefix("./") for one in patterns if not _WILD & set(one)}
    names = [one for one in patterns if "/" not in one]
    folders = tuple(
        one[:-2].removeprefix("./")
        for one in patterns
        if one.endswith("/**") and not _WILD & set(one[:-2])
    )
    others = [Rule("edit", one) for one in patterns if "/" in one and _WILD & set(one)]
    others = [one for one in others if one.pattern[:-2].removeprefix("./") not in folders]
    project, home = place.project, place.user_home

    def covered(name: str) -> bool:
        base = os.path.basename(name)
        return (
            name in exact
            or name.startswith(folders)
            or any(fnmatchcase(base, pattern) for pattern in names)
            or any(
                matches_path(
                    rule, str(project / name), project=project, user_home=home, loosely=True
                )
                for rule in others
            )
        )

    return covered


def digest_at(place: Workplace, name: str) -> str:
    """The digest of a file of the project; "" for what is none. A link is its target's name."""
    path = place.project / name
    try:
        found = os.lstat(path)
        if stat.S_ISLNK(found.st_mode):
            return hashlib.sha256(b"-> " + os.fsencode(os.readlink(path))).hexdigest()
        if not stat.S_ISREG(found.st_mode):
            return ""
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def keep_copies(guard: Guard, place: Workplace, folder: Path) -> None:
    """Keeps the content of what is protected, to put it back. Raises: StorageError."""
    if guard.held:
        durable.make_folder(folder)
    for name, digest in guard.held.items():
        path = place.project / name
        if path.is_symlink() or (folder / digest).exists():
            continue
        try:
            data = path.read_bytes() if path.stat().st_size <= MAX_COPIED_BYTES else None
        except OSError:
            continue
        if data is not None and hashlib.sha256(data).hexdigest() == digest:
            durable.replace(folder / digest, data)


def differing(guard: Guard, place: Workplace, read: Iterable[str]) -> list[str]:
    """The protected files that are not as they were when the goal began: changed, gone, or new. Of
    new ones that git ignores only those of `read`, which a check has opened."""
    if not guard.rules:
        return []
    changed = [name for name, digest in guard.held.items() if digest_at(place, name) != digest]
    covered, known = covering(guard.rules, place), guard.held.keys()
    inside = sorted(one for one in read if not os.path.isabs(one))
    ignored = _among_ignored(inside, guard.rules, place)
    shadowing = _shadowing(guard, place)
    names = dict.fromkeys((*filter(covered, listed(place)), *ignored, *shadowing))
    return [*changed, *(name for name in names if name not in known and digest_at(place, name))]


def put_back(guard: Guard, place: Workplace, folder: Path, read: Iterable[str]) -> list[str]:
    """Makes the protected files as they were, where there is a copy, and keeps what stood there in
    `folder`; returns those that it made so. `read`: see `differing`. Raises: StorageError."""
    done = []
    for name in differing(guard, place, read):
        path, digest = place.project / name, guard.held.get(name, "")
        if digest and not (folder / digest).is_file():
            continue
        try:
            mode = 0o644
            if path.is_file() and not path.is_symlink():
                mode = stat.S_IMODE(path.stat().st_mode)
                durable.make_folder(folder)
                durable.keep_aside(folder / f"{digest or 'new'}-{path.name}", path.read_bytes())
            with beneath.open_folder(place.project) as project:
                steps = Path(name).parts
                make = beneath.usual_mode if digest else None
                with beneath.open_below(project, steps[:-1], make=make) as there:
                    if digest:
                        with durable.open_folder(folder) as kept:
                            beneath.copy_in(kept, digest, there, steps[-1], mode)
                    else:
                        beneath.remove(there, steps[-1])
            done.append(name)
        except OSError:
            continue
    return done


def copies(opened: Opened) -> Path | None:
    """Where the protected files are kept; None for a session without a file."""
    folder = side_folder(opened)
    return None if folder is None else folder / "goals"


def side_folder(opened: Opened) -> Path | None:
    """The folder beside the session's file."""
    known = opened.session_id
    return None if known is None else paths.session_folder(opened.home, known)
