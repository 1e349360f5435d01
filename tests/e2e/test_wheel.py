"""kode as people install it: a wheel, built here, in an environment of its own."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.needs import needs

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
def test_the_wheel_has_the_license_and_what_is_read_beside_the_modules(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (license,) = (name for name in names if name.endswith("licenses/LICENSE"))
        text = archive.read(license).decode()
    assert text == (ROOT / "LICENSE").read_text()
    assert "MIT" in text
    tracked = run("git", "ls-files", "kode", cwd=ROOT).stdout.split()
    assert [name for name in tracked if name not in names] == []


def test_an_installed_wheel_runs_the_demo(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    python = environment / "bin" / "python"
    run(
        sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel
    )
    # The packages kode needs are those of the running environment: no index has to be reached.
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    bare = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    kode = environment / "bin" / "kode"

    where = run(python, "-c", "import kode; print(kode.__file__)", env=bare, cwd=tmp_path).stdout
    version = run(kode, "--version", env=bare, cwd=tmp_path).stdout
    demo = run(kode, env=bare, cwd=tmp_path, stdin=subprocess.DEVNULL).stdout

    assert Path(where.strip()).is_relative_to(environment)
    assert version.startswith("kode ")
    assert demo.splitlines()[-1].startswith("Next: ")
