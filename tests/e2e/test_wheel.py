"""kode as people install it: a wheel, built here, in an environment of its own."""

import importlib.metadata
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from kode import __version__
from tests.e2e.command import Place
from tests.needs import needs
from tests.scripted_server import ScriptedServer

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.timeout(300)]


def run(*command: object, **options: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=True, **options
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    (built,) = folder.glob("kode-*.whl")
    return built


@needs("git")
def test_the_wheel_holds_the_license_and_files_beside_modules(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (license,) = (name for name in names if name.endswith("licenses/LICENSE"))
        text = archive.read(license).decode()
    assert text == (ROOT / "LICENSE").read_text()
    tracked = run("git", "ls-files", "kode", cwd=ROOT).stdout.split()
    pages = [f"kode/{name}" for name in run("git", "ls-files", "docs", cwd=ROOT).stdout.split()]
    assert [name for name in (*tracked, *pages) if name not in names] == []


def installed(wheel: Path, environment: Path) -> Path:
    """Installs the wheel alone in a new environment; the folder of its packages."""
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    python = environment / "bin" / "python"
    run(
        sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel
    )
    (packages,) = environment.glob("lib/python*/site-packages")
    return packages


@pytest.fixture(scope="module")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `kode` of an environment that lacks every extra. What it needs is linked from the running
    environment: no index has to be reached."""
    environment = tmp_path_factory.mktemp("bare")
    packages = installed(wheel, environment)
    (kode,) = importlib.metadata.distributions(path=[str(packages)])
    for distribution in needed_by(kode):
        for name in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            if not (packages / name).exists():  # two may share a namespace
                (packages / name).symlink_to(distribution.locate_file(name))
    return environment / "bin" / "kode"


def needed_by(root: importlib.metadata.Distribution) -> list[importlib.metadata.Distribution]:
    """The distributions of this environment that one needs without its extras."""
    todo: list[tuple[importlib.metadata.Distribution, frozenset[str]]] = [(root, frozenset())]
    found: dict[tuple[str, frozenset[str]], importlib.metadata.Distribution] = {}
    while todo:
        distribution, extras = todo.pop()
        for wanted in map(Requirement, distribution.requires or ()):
            marker, key = wanted.marker, (canonicalize_name(wanted.name), frozenset(wanted.extras))
            here = not marker or any(marker.evaluate({"extra": one}) for one in ("", *extras))
            if here and key not in found:
                found[key] = importlib.metadata.distribution(wanted.name)
                todo.append((found[key], key[1]))
    return list(found.values())


def ask(kode: Path, place: Place, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [kode, *arguments],
        cwd=place.project,
        env=place.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_core_alone_does_a_task(bare: Path, place: Place, server: ScriptedServer) -> None:
    (place.project / "a.py").write_text("x = 1\n")
    edit = {"path": "a.py", "old_text": "x = 1", "new_text": "x = 2"}
    replies = [
        {"calls": [{"name": "read_file", "arguments": {"path": "a.py"}}]},
        {"calls": [{"name": "edit_file", "arguments": edit}]},
        {"calls": [{"name": "run_command", "arguments": {"command": "cat a.py"}}]},
        {"text": "x is 2 now."},
    ]
    server.play(replies)
    done = ask(bare, place, "run", "set x to 2", "--permission-mode", "auto-edit")

    assert (done.returncode, done.stdout) == (0, "x is 2 now.\n")
    assert (place.project / "a.py").read_text() == "x = 2\n"


def test_a_command_names_the_extra_it_lacks(
    bare: Path, place: Place, server: ScriptedServer
) -> None:
    server.play([{"text": "Hello."}])
    ask(bare, place, "run", "hello")
    commands = {
        "acp": "acp",
        "mcp serve": "mcp",
        "mcp serve --memory-only": "mcp",
        "view --no-browser": "view",
    }

    for command, extra in commands.items():
        done = ask(bare, place, *command.split())

        assert (done.returncode, done.stdout) == (3, ""), command
        (line,) = done.stderr.splitlines()
        assert f"kode[{extra}]" in line


def test_an_installed_wheel_runs_the_demo(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    packages = installed(wheel, environment)
    # The packages kode needs are those of the running environment: no index has to be reached.
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = environment / "bin" / "python"
    bare = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    kode = environment / "bin" / "kode"

    where = run(python, "-c", "import kode; print(kode.__file__)", env=bare, cwd=tmp_path).stdout
    version = run(kode, "--version", env=bare, cwd=tmp_path).stdout
    demo = run(kode, "demo", env=bare, cwd=tmp_path, stdin=subprocess.DEVNULL).stdout

    assert Path(where.strip()).is_relative_to(environment)
    as_module = run(python, "-m", "kode", "--version", env=bare, cwd=tmp_path).stdout
    assert version == as_module == f"kode {__version__}\n"
    assert demo.splitlines()[-1].startswith("Next: ")
